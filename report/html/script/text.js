// Reading what may be of any type, and text made safe to show. A record comes from somebody's program, or from a file that somebody edited.

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const objects = (value) => (Array.isArray(value) ? value.filter(isObject) : []);
const object = (value) => (isObject(value) ? value : {});
const string = (value) => (typeof value === "string" ? value : "");
const shortened = (text, limit) => (text.length <= limit ? text : text.slice(0, limit / 2) + "…" + text.slice(-limit / 2));

// Control characters would be invisible, and those that reorder text would lie about it.
const printable = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// Further lines of a statement are indented to what stands above them, which is lost where lines are wrapped.
const compact = (source) => source.replace(/\n {5,}/g, "\n    ");

function dedented(source) {
  const indent = /^[ \t]*/.exec(source)[0].length;
  return source.split("\n").map((line) => line.slice(Math.min(indent, line.length - line.trimStart().length)).trimEnd()).join("\n").trimEnd();
}
