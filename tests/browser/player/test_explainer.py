"""Where did this number come from? The panel that says it, and the arithmetic under the slots."""

from __future__ import annotations

import pytest
from explorer import FA2, LARGE, WIDE, Player
from playwright.sync_api import expect


def test_hops_lead_back_one_at_a_time(player: Player) -> None:
    player.open(FA2 + "?step=8")
    expect(player.page.locator(".explain")).to_contain_text("Click a number")
    player.page.get_by_role("tab", name="Carries").click()
    player.page.locator("[data-cell='li.2.0']").click()
    explanation = player.page.locator(".explanation")
    expect(explanation).to_contain_text("li")
    player.address(cell="li.2.0")
    old = explanation.locator(".operand[data-cell='li.2.0'][data-when=old]").first
    old.click()  # the old l: made at the update of j = 0
    player.at(5)
    player.address(step="5", cell="li.2.0")
    player.page.go_back()
    player.at(8)
    explanation.locator(".operand[data-cell='Sij.2.0']").first.click()  # P: made at this very step
    player.at(8)
    player.address(cell="Sij.2.0")
    player.page.go_back()
    player.address(cell="li.2.0")


def test_any_cell_is_reached_by_keyboard(player: Player) -> None:
    player.open(FA2 + "?step=7")
    picker = player.page.locator(".picker")
    picker.get_by_label("Slot or array").select_option(label="Sij")
    picker.get_by_label("row").fill("3")
    picker.get_by_label("column").fill("2")
    picker.get_by_label("column").press("Enter")
    player.address(cell="Sij.3.2")
    expect(player.page.locator(".explanation .operand[data-cell^='Qi.3.']")).to_have_count(4)
    expect(player.page.locator(".explanation .operand[data-cell^='Kj.2.']")).to_have_count(4)
    player.page.get_by_role("button", name="Clear").click()
    player.address(cell=None)


OVERLAPS = """
() => {
  const boxes = [...document.querySelectorAll(".figure-svg [data-key^='p0/']")]
    .map((one) => [one.dataset.key, one.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const panel = document.querySelector(".figure-svg [data-key='p0']").getBoundingClientRect();
  const sums = boxes.filter(([key]) => key.startsWith("p0/sum/"));
  return sums.flatMap(([key, at]) => [
    ...boxes.filter(([other, there]) => other !== key && meet(at, there)).map(([other]) => `${key} meets ${other}`),
    ...(at.right > panel.right || at.bottom > panel.bottom ? [`${key} leaves the panel`] : []),
    ...(at.height < 10 ? [`${key} is too small`] : [])]);
}
"""
COMPUTING = [("standard", 25), ("online-softmax", 5), ("flash-attention-1", 14), ("flash-attention-2", 8), ("flash-decoding", 8)]


@pytest.mark.parametrize(("kernel", "step"), COMPUTING)
def test_the_arithmetic_of_a_row_stands_under_the_slots(player: Player, kernel: str, step: int) -> None:
    sums = player.page.locator(".figure text[data-key^='p0/sum/']")
    for size in (WIDE, LARGE):
        player.page.set_viewport_size(size)
        player.open(f"/explore/{kernel}?step={step}")
        expect(sums.first).to_be_visible()
        assert player.page.evaluate(OVERLAPS) == []
    player.press("ArrowRight")  # a step that moves, or another that computes
    assert player.page.evaluate(OVERLAPS) == []


def test_the_arithmetic_is_of_the_selected_row(player: Player) -> None:
    player.open(FA2 + "?step=8")
    sums = player.page.locator(".figure text[data-key^='p0/sum/']")
    expect(sums.first).to_have_text("m = max(1.1033, 2.2951) = 2.2951")
    assert set(sums.all_text_contents()) >= {"row 0", "α = exp(1.1033 − 2.2951) = 0.3037"}
    player.open(FA2 + "?step=8&cell=li.2.0")
    assert "row 2" in sums.all_text_contents()
    player.open(FA2 + "?step=6")  # a load computes nothing: what it moved stands there
    expect(sums).to_have_count(0)
    moves = player.page.locator(".figure text[data-key^='p0/moves/']")
    assert set(moves.all_text_contents()) == {"moves", "K1 → Kj: 16 elements, 64 B", "V1 → Vj: 16 elements, 64 B"}


def test_the_list_to_explain_calls_a_slot_what_the_figure_calls_it(player: Player) -> None:
    player.open(FA2 + "?step=7")
    options = player.page.locator(".picker option")
    assert "Sij" in options.all_text_contents()
    player.press("ArrowRight")
    expect(options.filter(has_text="Pij (was Sij)")).to_have_count(1)
    player.press("ArrowLeft")
    expect(options.filter(has_text="Pij")).to_have_count(0)


def test_a_cell_is_named_as_its_slot_is_at_that_step(player: Player) -> None:
    name = player.page.locator(".explanation-name b")
    player.open(FA2 + "?step=7&cell=Sij.2.3")
    expect(name).to_have_text("Sij[2, 3]")
    player.press("ArrowRight")  # the update writes P over it
    expect(name).to_have_text("Pij[2, 3]")
