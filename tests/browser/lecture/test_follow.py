"""Students who follow a lecture, in browsers of their own, also when their wire is cut."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from hall import FA2, PHONE, READING, asks, at, opened
from playwright.sync_api import Browser, BrowserContext, Page, expect


class Wire:
    """A wire to the site that can be cut: what connects to `address` is passed on while it is whole."""

    def __init__(self, site: str) -> None:
        there = urlsplit(site)
        self.there = (str(there.hostname), int(there.port or 80))
        self.whole = True
        self.ends: list[socket.socket] = []
        self.pumps: list[threading.Thread] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if not self.whole:
                    near.close()
                    continue
                far = socket.create_connection(self.there)
                self.ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    self.pumps.append(threading.Thread(target=self.pump, args=(one, other), daemon=True))
                    self.pumps[-1].start()

    def pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        self.whole = False
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.pumps:
            thread.join()
        for end in self.ends:
            end.close()
        self.ends.clear()
        self.pumps.clear()


@pytest.fixture
def wire(site: str) -> Iterator[Wire]:
    made = Wire(site)
    yield made
    made.cut()
    made.listener.close()


def test_students_follow_look_around_and_come_back(
    page: Page, context: BrowserContext, site: str, wire: Wire, browser: Browser
) -> None:
    asks(context, READING)
    hall = opened(page, site + FA2 + "?step=5")
    hall.keyboard.press("l")
    dialog = hall.get_by_role("dialog")
    expect(dialog).to_contain_text("flashstep serve --host 0.0.0.0")  # this server listens on this machine alone
    link = dialog.get_by_role("link").get_attribute("href")
    assert link is not None
    expect(dialog).to_contain_text(urlsplit(link).path)
    hall.keyboard.press("PageDown")  # a clicker puts it away, and no more
    expect(dialog).to_be_hidden()
    at(hall, 5)

    students = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    asks(students, READING)
    student = students.new_page()
    student.goto(wire.address + urlsplit(link).path)
    place, said, press = student.locator(".player .place"), student.locator("#said"), student.locator("#leave")
    expect(place).to_have_text("step 5 of 18")
    expect(said).to_have_text("Following the lecturer.")
    expect(hall.locator(".strip .count")).to_have_text("0 follow")
    hall.keyboard.press("PageDown")
    expect(student.get_by_text("Does the maximum")).to_be_visible()
    expect(hall.locator(".strip .count")).to_have_text("1 follows")
    hall.keyboard.press("PageDown")
    expect(student.get_by_text("It does, in 3 of 4 rows.")).to_be_visible()
    hall.keyboard.press("PageDown")
    expect(place).to_have_text("step 8 of 18")
    hall.keyboard.press("b")
    expect(said).to_contain_text("screen is blank")
    hall.keyboard.press("b")

    student.get_by_role("button", name="Previous step").click()  # looks around
    expect(place).to_have_text("step 7 of 18")
    hall.keyboard.press("PageDown")
    expect(said).to_have_text("You are looking around. The lecturer is at step 9.")
    expect(place).to_have_text("step 7 of 18")
    press.click()
    expect(place).to_have_text("step 9 of 18")

    wire.cut()
    expect(said).to_have_text("Connection lost; trying again.")
    hall.keyboard.press("PageDown")
    at(hall, 11)
    expect(place).to_have_text("step 9 of 18")
    wire.whole = True
    expect(place).to_have_text("step 11 of 18", timeout=15_000)  # level again, at the right step
    expect(said).to_have_text("Following the lecturer.")

    # More than the server takes: it is said, and the page still learns where the lecturer is.
    late = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    asks(late, READING)
    where = re.compile(rf"{urlsplit(link).path.replace('/f/', '/api/follow/')}(/events)?$")
    late.route(where, lambda route: route.fulfill(status=503, json={"error": "full"}) if route.request.url.endswith("/events")
               else route.fulfill(json=late.request.get(route.request.url).json() | {"full": True}))  # fmt: skip
    full = late.new_page()
    full.goto(wire.address + urlsplit(link).path)
    expect(full.locator("#said")).to_contain_text("As many follow live as the server takes")
    expect(full.locator(".player .place")).to_have_text("step 11 of 18")
    late.close()

    # The next lecture of the course goes on with the same students; so does the hall's own reload.
    hall.goto(site + "/lecture/online-softmax?step=3")
    expect(student.locator("h1")).to_have_text("Online softmax")
    expect(place).to_have_text(re.compile("^step 3 of "))
    hall.reload()
    expect(hall.locator(".strip .place")).to_have_text(re.compile("^step 3 of "))
    hall.keyboard.press("Shift+ArrowRight")
    expect(place).to_have_text(re.compile("^step 4 of "))
    # Nobody moves a lecture with the code alone.
    code = urlsplit(link).path.rsplit("/", 1)[1]
    refused = students.request.post(f"{wire.address}/api/follow/{code}", data=json.dumps({}))
    assert refused.status == 403
    hall.keyboard.press("l")
    hall.get_by_role("button", name="End the session").click()
    expect(said).to_contain_text("The lecture is over.")
    students.close()
