// Statements followed for where their values lie.
#include "report/verdict/source/device_flow.h"

#include <gtest/gtest.h>

namespace devtrace::report::verdict {
namespace {

// `c` and what begins with it lies on the CPU, `g` on the GPU, to which things are brought.
DeviceFlow flow() {
  DeviceFlow it({"cpu", "cuda:0", "model.device", {}, {}, {}});
  it.names = {{"c", "cpu"}, {"g", "cuda:0"}, {"self.c", "cpu"}, {"batch[\"c\"]", "cpu"}};
  it.devices = {{"device", "cuda:0"}};
  return it;
}

// The statement, with what it wants moved; itself where that is nothing.
std::string moved(std::string_view statement) {
  DeviceFlow it = flow();
  return it.run(statement).value_or(std::string(statement));
}

// Where `y` lies after the statements.
std::string place(std::initializer_list<std::string_view> statements) {
  DeviceFlow it = flow();
  for (const std::string_view each : statements) it.run(each);
  const auto found = it.names.find("y");
  return found == it.names.end() ? "" : found->second;
}

TEST(DeviceFlow, MovesWhatMeetsAnotherDevice) {
  EXPECT_EQ(moved("y = g + c"), "y = g + c.to(g.device)");
  EXPECT_EQ(moved("    y = g * -c ** 2 + 1"), "    y = g * (-c ** 2).to(g.device) + 1");
  EXPECT_EQ(moved("y = torch.cat([g, c, -c], dim=0)"), "y = torch.cat([g, c.to(g.device), (-c).to(g.device)], dim=0)");
  EXPECT_EQ(moved("return g.exp() - (c + self.c)"), "return g.exp() - (c + self.c).to(g.device)");
  EXPECT_EQ(moved("y = torch.where(g > 0,\n                g, batch['c'])"),
            "y = torch.where(g > 0,\n                g, batch['c'].to(g.device))");
  EXPECT_EQ(moved("if (g == c).all():"), "if (g == c.to(g.device)).all():");
  EXPECT_EQ(moved("g += c"), "g += c.to(g.device)");
  EXPECT_EQ(moved("y: Tensor = g @ c.T"), "y: Tensor = g @ c.T.to(g.device)");
  EXPECT_EQ(moved("y = F.mse_loss(g, target=c)"), "y = F.mse_loss(g, target=c.to(g.device))");
  EXPECT_EQ(moved("y = torch.add(g, c, **{}) if f('a)', \"b\" '(') else {'c': c}"),
            "y = torch.add(g, c.to(g.device), **{}) if f('a)', \"b\" '(') else {'c': c}");
  EXPECT_EQ(moved("y = sum(x for x in {1: [c]}) + f([x for x in g], -1) + g * c"),
            "y = sum(x for x in {1: [c]}) + f([x for x in g], -1) + g * c.to(g.device)");
  EXPECT_EQ(moved("y = c[g]"), "y = c.to(g.device)[g]");
  EXPECT_EQ(moved("y = g - c.max(dim=-1)[0]"), "y = g - c.max(dim=-1)[0].to(g.device)");
  EXPECT_EQ(moved("y = g - c.topk(3).values"), "y = g - c.topk(3).values.to(g.device)");
  EXPECT_EQ(moved("y = g - torch.FloatTensor(n)"), "y = g - torch.FloatTensor(n).to(g.device)");
  EXPECT_EQ(moved("g[:, g > 0] = c"), "g[:, g > 0] = c.to(g.device)");
  EXPECT_EQ(moved("return g.clamp(0, 1).numpy()"), "return g.clamp(0, 1).cpu().numpy()");
}

TEST(DeviceFlow, GivesModulesWhatLiesWithThem) {
  DeviceFlow it = flow();
  it.names.insert({{"net()", "cuda:0"}, {"loss()", ""}, {"left()", "cpu"}});
  const auto run = [&](std::string_view statement) { return it.run(statement).value_or(std::string(statement)); };
  EXPECT_EQ(run("y = loss(net(c).logits, c)"),
            "y = loss(net(c.to(next(net.parameters()).device)).logits, c.to(model.device))");
  EXPECT_EQ(run("y = net(torch.tensor(n))"), "y = net(torch.tensor(n).to(next(net.parameters()).device))");
  EXPECT_EQ(run("y = left(g)"), "y = left(g)");
  it.modules_come = true;
  EXPECT_EQ(run("y = left(g)"), "y = left.to(g.device)(g)");
}

TEST(DeviceFlow, AsksWhatACallGives) {
  DeviceFlow it = flow();
  it.current = "cuda:0";
  it.follow = [](const FlowNames&, const std::string& function, const std::vector<FlowGiven>& given) {
    std::optional<FlowValue> value;
    if (function == "self.made" && given.size() == 2 && given[1].keyword == "count") value.emplace().device = "cpu";
    return value;
  };
  const auto run = [&](std::string_view statement) { return it.run(statement).value_or(std::string(statement)); };
  EXPECT_EQ(run("y = g * self.made(g, count=3)"), "y = g * self.made(g, count=3).to(g.device)");
  EXPECT_EQ(run("y = g * self.made(*g, count=3)"), "y = g * self.made(*g, count=3)");
  EXPECT_EQ(run("y = g * other(g, count=3)"), "y = g * other(g, count=3)");
  EXPECT_EQ(run("y = g * c.cuda() + c.to('cuda')"), "y = g * c.cuda() + c.to('cuda')");
}

TEST(DeviceFlow, LeavesWhatMayMeet) {
  for (const char* const statement : {"y = g + 1",
                                      "y = g[c]",
                                      "y = g[:c.shape[0]]",
                                      "y = c.to(g.device) + g",
                                      "y = c.to(device) * g",
                                      "y = g, c",
                                      "y = f(g, c)",
                                      "y = g.view(c.shape[0], -1)",
                                      "y = g.expand_as(c)",
                                      "g.copy_(c)",
                                      "y = g.item() * c",
                                      "y = c.type_as(g) + g",
                                      "y = torch.zeros_like(c, device=g.device) + g",
                                      "y = torch.ones(3, device=device) * g",
                                      "y = [x + c for x in g]",
                                      "y = f'{g}' + 'c'",
                                      "y = g is c",
                                      "c += g.cpu()",
                                      "y = g.new_zeros(3) + g",
                                      "y = lambda c: c + g",
                                      "y = torch.tensor(c.tolist(), device=g.device) + g",
                                      "y = int(g) + c",
                                      "y = g.to(c) + c",
                                      "y = np.add(g, c)",
                                      "y = c.numpy() + 1",
                                      "c.append(g)"})
    EXPECT_EQ(moved(statement), statement);
}

TEST(DeviceFlow, KnowsWhereResultsLie) {
  EXPECT_EQ(place({"y = c.float().unsqueeze(0)"}), "cpu");
  EXPECT_EQ(place({"y = c.to(g.device)"}), "cuda:0");
  EXPECT_EQ(place({"y = c.to(torch.float16)"}), "cpu");
  EXPECT_EQ(place({"y = c.to(model.device)"}), "cuda:0") << "the fix's words";
  EXPECT_EQ(place({"y = c.to(elsewhere)"}), "");
  EXPECT_EQ(place({"x, y = c, g"}), "cuda:0");
  EXPECT_EQ(place({"x = y = g.T"}), "cuda:0");
  EXPECT_EQ(place({"x = g.device", "y = c.to(x)"}), "cuda:0");
  EXPECT_EQ(place({"y = g", "y = f()"}), "") << "given another value";
  EXPECT_EQ(place({"y = net(g)"}), "cuda:0") << "of what lies there alone";
  EXPECT_EQ(place({"y = net(c)"}), "");
  EXPECT_EQ(place({"y = torch.arange(3)"}), "cpu");
  EXPECT_EQ(place({"y = torch.arange(3, device=g.device)"}), "cuda:0");
  EXPECT_EQ(place({"y = torch.stack([c, c])"}), "cpu");
  EXPECT_EQ(place({"y = g + c"}), "cuda:0") << "as it is brought there";
}

TEST(DeviceFlow, ItsWordsLastAsLongAsTheirVariable) {
  DeviceFlow it = flow();
  it.run("model = other()");
  EXPECT_EQ(it.run("return torch.cat([f(g), c])"), std::nullopt);
  DeviceFlow kept = flow();
  EXPECT_EQ(kept.run("return torch.cat([f(g), c])"), "return torch.cat([f(g), c.to(model.device)])");
}

TEST(DeviceFlow, TakesWhatAFunctionReturned) {
  DeviceFlow inner = flow();
  inner.run("return c, g + c");
  ASSERT_TRUE(inner.result());
  DeviceFlow outer = flow();
  outer.returned = {"split", *inner.result()};
  outer.run("x, y = split(z)");
  EXPECT_EQ(outer.names["x"], "cpu");
  EXPECT_EQ(outer.names["y"], "cuda:0");
}

}  // namespace
}  // namespace devtrace::report::verdict
