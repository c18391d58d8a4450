// Those who follow: the link and its code, and the news of every move, sent to the server with the lecturer's key.

export function createStudents() {
  return { open() {}, show() {} };
}
