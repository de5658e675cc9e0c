// The operands as a picture and as a table.

function origin(event) {
  if (!isObject(event)) return quiet("not known");
  const frame = userFrame(framesOf(event));
  const way = event.from && event.to ? `${string(event.from)} → ${string(event.to)}` : string(event.device);
  return [way && make("span", null, way, " "), string(event.call) && make("span", null, `by ${event.call} `), frame ? code(location(frame)) : quiet("at an unknown place")];
}

function drawOperands(finding) {
  const operands = operandsAndSources(finding);
  if (!operands.length) return null;
  const rows = operands.map((operand) => [
    [code(shortened(nameOf(operand), 200)), ...(operand.odd ? [" ", make("span", { className: "tag" }, "odd one out")] : [])],
    deviceName(string(operand.device)),
    [extent(operand), make("br"), bytes(operand.bytes) !== extent(operand) && quiet(bytes(operand.bytes))],
    [role(operand), string(operand.hook) && quiet(make("br"), `hook: ${string(operand.hook)}`)],
    operand.before_attach === true && !operand.created ? quiet("before devtrace was attached")
      : string(operand.pool) ? [origin(operand.created), quiet(make("br"), madeBy(operand))] : origin(operand.created),
    operand.moved ? origin(operand.moved) : quiet(operand.created ? "never seen" : "not known"),
  ]);
  return section("Operands", drawPicture(finding), table("operands", ["Name", "Device", "Type", "Role", "Created", "Last moved"], rows, "Operands"));
}
