// Lines of programs, of Python and of C++.
#include "report/verdict/source/source_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/phrasing/cpp_launch.h"
#include "report/phrasing/cpp_made.h"
#include "report/phrasing/cpp_scope.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/edits/device_edits.h"

namespace devtrace::report::verdict {
namespace {

TEST(Reads, FindsWholeWordsThatAreRead) {
  EXPECT_EQ(reads("y = f(x, xx, a.x, x=1, 'x')  # x", "x"), 1);
  EXPECT_EQ(reads("x = x + 1", "x"), 1);
  EXPECT_EQ(reads("x[i] = y", "i"), 1);
  EXPECT_EQ(reads("f(x.shape[0], x.device)", "x"), 0) << "only asks about it";
  EXPECT_EQ(reads("f(batch['ids'])", "batch[\"ids\"]"), 1) << "either quote";
  EXPECT_EQ(reads("y = f(x == 1)", "x"), 1);
}

TEST(ReplaceRead, RewritesTheOnlyRead) {
  EXPECT_EQ(
      replace_read("    presents = torch.cat((presents, kv_cache), dim=0)", "presents", "presents.to(kv_cache.device)"),
      "presents = torch.cat((presents.to(kv_cache.device), kv_cache), dim=0)");
  EXPECT_EQ(replace_read("f(x, x)", "x", "y"), std::nullopt) << "which?";
  EXPECT_EQ(replace_read("f(a", "a", "b"), std::nullopt) << "a statement that was cut";
  EXPECT_EQ(replace_read("f('a", "a", "b"), std::nullopt);
}

TEST(ReplaceRead, MovesBehindAMoveThatIsThere) {
  EXPECT_EQ(replace_read("y = x - d['a'].to(device)", "d['a']", "d['a'].to(x.device)"),
            "y = x - d['a'].to(device).to(x.device)");
  EXPECT_EQ(replace_read("y = x - c.to(place(0)).cpu().sum()", "c", "c.to(x.device)"),
            "y = x - c.to(place(0)).cpu().to(x.device).sum()");
}

TEST(IsTerm, IsAnOperandOfArithmetic) {
  for (const char* const line : {"return x * y + c", "y = (c - 1) @ x", "return f(x * c)", "y = x / c[0]"})
    EXPECT_TRUE(is_term(line, "c")) << line;
  for (const char* const line : {"f(x, c)", "f(*c)", "f(x, **c)", "c * c", "y = x[c]"})
    EXPECT_FALSE(is_term(line, "c")) << line;
}

TEST(IsArgumentBeside, OfTheSameCall) {
  EXPECT_TRUE(is_argument_beside("y = model(x.to(d), mask)", "mask", "x"));
  EXPECT_TRUE(is_argument_beside("y = model(\n    x.to(d),\n    mask=mask,\n)", "mask", "x"));
  EXPECT_FALSE(is_argument_beside("y = model(x.to(d), f(mask))", "mask", "x"));
  EXPECT_FALSE(is_argument_beside("y = model(x.to(d)) + f(mask)", "mask", "x"));
  EXPECT_FALSE(is_argument_beside("y = model(x.to(d), mask[0])", "mask", "x"));
  EXPECT_FALSE(is_argument_beside("y = x.to(d), mask", "mask", "x")) << "a tuple";
  EXPECT_TRUE(is_argument_beside("y = model(x, mask) @ mask", "mask", "x")) << "and elsewhere";
}

TEST(Reads, AParameterIsNotRead) {
  EXPECT_EQ(reads("two = lambda x: f(x)", "x"), 1);
  EXPECT_EQ(reads("two = lambda a, x=x: f(x)", "x"), 2) << "its default is";
  EXPECT_EQ(reads("map(lambda x: f(x), x)", "x"), 2);
  EXPECT_EQ(replace_read("two = lambda x: f(x)", "x", "x.to(d)"), "two = lambda x: f(x.to(d))");
}

TEST(Binds, WhatALambdaOrAComprehensionNames) {
  EXPECT_TRUE(binds("two = lambda x: x + x", "x"));
  EXPECT_TRUE(binds("y = [x + x for x in xs]", "x"));
  EXPECT_FALSE(binds("y = [x + a for a in xs] + x", "x"));
  EXPECT_FALSE(binds("two = lambda a: x + x", "x"));
  EXPECT_FALSE(binds("y = 'lambda x: x' + x", "x"));
}

TEST(ReplaceRead, LeavesWhatIsWrittenTo) {
  EXPECT_EQ(replace_read("x.add_(y)", "x", "x.to(y.device)"), std::nullopt);
  EXPECT_EQ(replace_read("torch.add(a, b, out=x)", "x", "x.to(y.device)"), std::nullopt);
  EXPECT_EQ(replace_read("x.add_(y)", "y", "y.to(x.device)"), "x.add_(y.to(x.device))");
}

TEST(CalleeOf, NamesWhatIsCalledWithIt) {
  EXPECT_EQ(callee_of("out = self.model(**encoded).last", "encoded"), "self.model");
  EXPECT_EQ(callee_of("out = model(f(x))", "x"), "f");
  EXPECT_EQ(callee_of("out = models[0](x)", "x"), std::nullopt);
  EXPECT_EQ(callee_of("out = make().model(x)", "x"), std::nullopt);
  EXPECT_EQ(callee_of("out = (x + 1)", "x"), std::nullopt);
}

TEST(GiveDevice, AddsOrReplacesWhatMeansTheDefault) {
  EXPECT_EQ(give_device("m = torch.ones(n, 1)", "x.device"), "m = torch.ones(n, 1, device=x.device)");
  EXPECT_EQ(give_device("m = torch.ones(n,)", "x.device"), "m = torch.ones(n, device=x.device,)");
  EXPECT_EQ(give_device("m = torch.arange(x.shape[1]).unsqueeze(0)", "x.device"),
            "m = torch.arange(x.shape[1], device=x.device).unsqueeze(0)");
  EXPECT_EQ(give_device("m = torch.ones(n, device='cuda')", "x.device"), "m = torch.ones(n, device=x.device)");
  EXPECT_EQ(give_device("m = torch.ones(n, device=d)", "x.device"), std::nullopt);
  for (const char* const of_numpy : {"m = torch.LongTensor(2 * torch.ones(n).numpy())",
                                     "m = torch.ones(n)[0].T.tolist()", "m = f(np.asarray(torch.ones(n)))"})
    EXPECT_EQ(give_device(of_numpy, "x.device"), std::nullopt) << of_numpy;
  EXPECT_EQ(give_device("m = torch.tensor(torch.rand(3).max().item())", "x.device"),
            "m = torch.tensor(torch.rand(3).max().item(), device=x.device)");
  EXPECT_EQ(give_device("m = torch.ones(n) + torch.zeros(n)", "x.device"), std::nullopt) << "which?";
  EXPECT_EQ(give_device("m = np.ones(n)", "x.device"), std::nullopt);
  EXPECT_EQ(give_device("m = xp.ones(n)", "x.device"), "m = xp.ones(n, device=x.device)");
}

TEST(MoveAssigned, MovesTheWholeValue) {
  EXPECT_EQ(move_value("t = torch.from_numpy(a).long()  # steps", "d"),
            "t = torch.from_numpy(a).long().to(d)  # steps");
  EXPECT_EQ(move_value("self.t: Tensor = a + b", "d"), "self.t: Tensor = (a + b).to(d)");
  EXPECT_EQ(move_value("self.model = model", "d"), "self.model = model.to(d)");
  EXPECT_EQ(move_value("a, b = f(x)", "d"), std::nullopt) << "two values";
  EXPECT_EQ(move_value("self.model = None", "d"), std::nullopt);
  EXPECT_EQ(move_value("a += f(x)", "d"), std::nullopt);
  EXPECT_EQ(move_value("f(a=x)", "d"), std::nullopt);
  EXPECT_TRUE(gives_new_tensor("t = th.from_numpy(a).long()"));
  EXPECT_FALSE(gives_new_tensor("t = load(torch.ones(3))"));
  EXPECT_FALSE(gives_new_tensor("t = torch.relu(x)"));
}

TEST(MoveNewElements, MovesWhatAComprehensionMakes) {
  EXPECT_EQ(move_new_elements("    a, b = (torch.LongTensor([x]) for x in (h, r))", "t.device"),
            "a, b = (torch.LongTensor([x]).to(t.device) for x in (h, r))");
  EXPECT_EQ(move_new_elements("t = {k: torch.from_numpy(v) for k, v in d.items()}", "self.d"),
            "t = {k: torch.from_numpy(v).to(self.d) for k, v in d.items()}");
  EXPECT_EQ(move_new_elements("t = [torch.relu(x) for x in y]", "d"), std::nullopt);
  EXPECT_EQ(move_new_elements("t = [torch.Tensor(x) for x in y]", "x.device"), std::nullopt) << "means the element";
  EXPECT_EQ(move_new_elements("t = torch.Tensor(x)  # for me", "d"), std::nullopt);
}

TEST(MoveConstructed, MovesWhatTheClassGives) {
  EXPECT_EQ(move_constructed("    self.loss = losses.ArcFace(8, f(5))", "ArcFace", "d"),
            "self.loss = losses.ArcFace(8, f(5)).to(d)");
  EXPECT_EQ(move_constructed("    self.loss = ArcFace(8, f(5))", "ArcFace", "d"), "self.loss = ArcFace(8, f(5)).to(d)");
  EXPECT_EQ(move_constructed("pipe = Pipe(encoder=ArcFace(8))", "ArcFace", "d"), std::nullopt)
      << "who gets it may move it";
  EXPECT_EQ(move_constructed("loss = ArcFace(8).to(device)", "ArcFace", "d"), std::nullopt);
  EXPECT_EQ(move_constructed("parts = [Part(1), Part(2)]", "Part", "d"), std::nullopt) << "which?";
}

TEST(GiveDevice, KnowsAllFunctionsThatMakeTensors) {
  EXPECT_EQ(give_device("w = th.ones(n)", "d"), "w = th.ones(n, device=d)");
  EXPECT_EQ(give_device("w = torch.hamming_window(n)", "d"), "w = torch.hamming_window(n, device=d)");
  EXPECT_EQ(give_device("f = torch.fft.rfftfreq(n)", "d"), "f = torch.fft.rfftfreq(n, device=d)");
  EXPECT_EQ(give_device("f(y, torch.zeros_like(y))", "d"), "f(y, torch.zeros_like(y, device=d))");
  EXPECT_EQ(give_device("m = x.new_full((n,), 1, device='cuda')", "d"), "m = x.new_full((n,), 1, device=d)");
  EXPECT_EQ(give_device("m = torch.cat([torch.zeros(n), torch.zeros_like(x)])", "d"),
            "m = torch.cat([torch.zeros(n, device=d), torch.zeros_like(x)])")
      << "zeros_like(x) lies where x lies";
  EXPECT_EQ(give_device("m = torch.from_numpy(x)", "d"), std::nullopt) << "takes none";
  EXPECT_EQ(give_device("m = torch.bernoulli(x)", "d"), std::nullopt);
  EXPECT_EQ(give_device("m = new_zeros(n)", "d"), std::nullopt) << "somebody's function";
}

TEST(MakesTensor, FromNothing) {
  for (const char* yes : {"torch.zeros(n)", "torch.full((n,), 1.0)", "torch.scalar_tensor(1)", "torch.fft.fftfreq(n)"})
    EXPECT_TRUE(makes_tensor(yes)) << yes;
  for (const char* no :
       {"torch.zeros_like(x)", "x.new_zeros(n)", "torch.randn_like(x)", "x.zeros(n)", "torch.add(x, y)"})
    EXPECT_FALSE(makes_tensor(no)) << no;
}

TEST(SaysDevice, SeesArgumentsAndMoves) {
  EXPECT_FALSE(says_device("m = torch.ones(n)"));
  EXPECT_TRUE(says_device("m = torch.ones(n, device=d)"));
  EXPECT_TRUE(says_device("m = torch.ones(n).to(d)"));
  EXPECT_FALSE(says_device("m = torch.ones(n).to(torch.int32)"));
  EXPECT_FALSE(says_device("m = torch.ones(n).to(x.dtype)"));
  EXPECT_TRUE(says_device("m = torch.ones_like(x, device=d)"));
}

TEST(RedirectMove, ChangesTheOnlyMove) {
  EXPECT_EQ(redirect_move("x = x.to(self.device)", "m.device"), "x = x.to(m.device)");
  EXPECT_EQ(redirect_move("x = f(x.to(self.device_of[i]))", "m.device"), "x = f(x.to(m.device))");
  EXPECT_EQ(redirect_move("x = f(x.to(kinds[i]))", "m.device"), std::nullopt);
  EXPECT_EQ(without_move("return torch.stack(x).to(self.device)"), "return torch.stack(x)");
  EXPECT_EQ(without_move("x = x.detach().cpu() * 2"), "x = x.detach() * 2");
  EXPECT_EQ(without_move("x = x.to(torch.float16)"), std::nullopt) << "a type, no device";
  EXPECT_EQ(without_move("x = x.to('cpu', torch.float16)"), std::nullopt) << "a type, too";
  EXPECT_EQ(without_move("x, y = x.cpu(), y.cpu()"), std::nullopt) << "which?";
  EXPECT_EQ(redirect_move("x = x.to('cuda:0', non_blocking=True)", "m.device"),
            "x = x.to(m.device, non_blocking=True)");
  EXPECT_EQ(redirect_move("x = x.cuda()", "m.device"), "x = x.to(m.device)");
  EXPECT_EQ(redirect_move("x = x.to(torch.float16)", "m.device"), std::nullopt) << "a type, no device";
  EXPECT_EQ(redirect_move("x, y = x.cuda(), y.cuda()", "m.device"), "x, y = x.to(m.device), y.to(m.device)");
  EXPECT_EQ(redirect_move("x, y = x.cuda(), y.to(device)", "m.device"), std::nullopt) << "which?";
  EXPECT_EQ(redirect_move("x, y = x.to(device), y.to(device)", "m.device"), "x, y = x.to(m.device), y.to(m.device)");
  EXPECT_EQ(redirect_move("x, y = x.to(first), y.to(device)", "m.device"), std::nullopt) << "which?";
  EXPECT_EQ(redirect_move("x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)", "m.device"),
            std::nullopt);
  EXPECT_EQ(kept_move("x.to(device), y.to(device)"), std::nullopt) << "x = x.to(device), y.to(device) is a tuple";
}

TEST(SaysCurrentDevice, IsCudaWithoutANumber) {
  EXPECT_TRUE(says_current_device("x = x.cuda()"));
  EXPECT_TRUE(says_current_device("x = x.to(\"cuda\")"));
  EXPECT_TRUE(says_current_device("x = torch.ones(3, device='cuda')"));
  EXPECT_TRUE(says_current_device("x = torch.zeros_like(y, device='cuda')"));
  EXPECT_TRUE(says_current_device("ids = torch.cuda.LongTensor(rows)"));
  EXPECT_TRUE(says_current_device("return a + torch.cuda.FloatTensor(4).fill_(1.0)"));
  EXPECT_FALSE(says_current_device("x = torch.cuda.HalfTensor(4, device=torch.device(1))"));
  EXPECT_FALSE(says_current_device("x = torch.FloatTensor(4)"));
  EXPECT_FALSE(says_current_device("ok = isinstance(x, torch.cuda.FloatTensor)"));
  EXPECT_FALSE(says_current_device("x = x.to('cuda:1')"));
  EXPECT_FALSE(says_current_device("x = x.cuda(1)"));
}

TEST(KeywordArgument, TakesTheWholeExpression) {
  EXPECT_EQ(keyword_argument("torch.rand(4, generator=self.rng)", "generator"), "self.rng");
  EXPECT_EQ(keyword_argument("torch.rand(4, generator=make(1, 2), out=x)", "generator"), "make(1, 2)");
  EXPECT_EQ(keyword_argument("generator = 4", "generator"), std::nullopt);
  EXPECT_EQ(keyword_argument("f(x, map_location=lambda a, b: a, y=1)", "map_location"), "lambda a, b: a");
  EXPECT_EQ(give_argument("f(x, to=lambda a, b: a, y=1)", "f", "to", "None"), "f(x, to=None, y=1)");
  EXPECT_EQ(give_argument("f(\n    x,\n)", "f", "to", "None"), "f(\n    x, to=None,\n)");
}

TEST(IsReference, TakesNamesAttributesAndElements) {
  for (const char* yes : {"x", "self.cache", "batch[\"ids\"]", "past[0][1]", "a.b[0].c"})
    EXPECT_TRUE(is_reference(yes)) << yes;
  for (const char* no : {"", "1", "f(x)", "a + b", "a.", "x[", "\"s\""}) EXPECT_FALSE(is_reference(no)) << no;
}

TEST(BeginsWith, FollowsWhatStaysOnItsDevice) {
  EXPECT_EQ(begins_with("torch.gather(logprobs, 1, ids).squeeze()"), "logprobs");
  EXPECT_EQ(begins_with("torch.nn.functional.softmax(self.scores, dim=-1)"), "self.scores");
  EXPECT_EQ(begins_with("hidden.float().mean(-1, keepdim=True)"), "hidden");
  EXPECT_EQ(begins_with("ids.long().argsort()"), "ids");
  EXPECT_EQ(begins_with("self.weight.float()"), "self.weight");
  EXPECT_EQ(begins_with("self.layer.weight.T.float()"), "self.layer.weight");
  EXPECT_EQ(begins_with("torch.zeros_like(scores).tril()"), "scores");
  EXPECT_EQ(begins_with("scores.new_zeros(n)"), "scores");
  for (const char* no : {"", "x.to(device)", "torch.zeros(n).float()", "self.model(x)", "model.encode(x)", "a + b",
                         "torch.tensor(x)", "torch.zeros_like(x, device=d)", "x.new_zeros(n, device=d)",
                         "torch.gather(f(x), 1, i)", "x.cpu().float()", "torch.gather(", "x[0].float()"})
    EXPECT_EQ(begins_with(no), std::nullopt) << no;
}

TEST(MoveResult, WantsOneCallThatIsAWholeArgument) {
  EXPECT_EQ(move_result("    idx=to_ids(\"a, b\", tokenizer),", "to_ids", "device"),
            "idx=to_ids(\"a, b\", tokenizer).to(device),");
  EXPECT_EQ(move_result("y = model(book.to_ids(text))", "to_ids", "d"), "y = model(book.to_ids(text).to(d))");
  for (const char* no : {"y = model(to_ids(a), to_ids(b))", "y = model(to_ids(a)[0])", "y = model(-to_ids(a))",
                         "y = model(to_ids(a) + 1)", "y = model(to_ids(a", "y = model(all_to_ids(a))", "to_ids(a)"})
    EXPECT_EQ(move_result(no, "to_ids", "d"), std::nullopt) << no;
}

TEST(MakesArgument, WantsTheWholeOfIt) {
  EXPECT_TRUE(makes_argument("out = model(input_ids=torch.as_tensor([tokens]), use_cache=False)"));
  EXPECT_TRUE(makes_argument("out = model(x, torch.ones_like(x))"));
  for (const char* no : {"out = model(torch.as_tensor(x) + y)", "x = torch.ones(3)", "f(torch.ones(3), torch.ones(2))"})
    EXPECT_FALSE(makes_argument(no)) << no;
}

TEST(MovedTo, GivesTheDevicesName) {
  EXPECT_EQ(moved_to("model.to(device)"), "device");
  EXPECT_EQ(moved_to("model = Model(config).to(args.device)"), "args.device");
  EXPECT_EQ(moved_to("model.to(device, dtype)"), "device");
  for (const char* no : {"model.to(\"cuda:1\")", "model.to(torch.float16)", "model.to(other)", "model.cuda()",
                         "model.to(dtype, device)", "a.to(device); b.to(device)", ""})
    EXPECT_EQ(moved_to(no), std::nullopt) << no;
}

// Nothing that a source line may hold makes any of them fail.
TEST(AnySource, IsTaken) {
  for (const char* source : {"", "(((((", ")))))", "'", "\"\"\"", "'\\", "x = = =", "torch.ones(", "torch.ones()",
                             ".to(", ".to()", "\xff\xfe", "torch.ones(n, device=", "f(x,generator="}) {
    reads(source, "x");
    replace_read(source, "x", "y");
    callee_of(source, "x");
    give_device(source, "d");
    redirect_move(source, "d");
    says_current_device(source);
    keyword_argument(source, "generator");
    is_reference(source);
    begins_with(source);
    move_result(source, "f", "d");
    moved_to(source);
    makes_argument(source);
  }
}

TEST(SourceLine, AComprehensionsTargetIsNotRead) {
  EXPECT_EQ(reads("return {name: act[rows] for name, act in record.items()}", "act"), 1);
  EXPECT_EQ(reads("for x, (y, z) in pairs: use(x, y, z)", "y"), 1);
  EXPECT_EQ(reads("for_x = x + force", "x"), 1);
}

TEST(SourceLine, AnExpressionIsMovedInOnePiece) {
  EXPECT_EQ(move_expression("g = grid(flow) + flow.permute(0, 1)", "grid(flow)", "flow.device"),
            "g = grid(flow).to(flow.device) + flow.permute(0, 1)");
  EXPECT_EQ(move_expression("y = f(a - b, c)", "a - b", "c.device"), "y = f((a - b).to(c.device), c)");
  EXPECT_FALSE(move_expression("y = f(x).sum() + b", "f(x)", "b.device"));
  EXPECT_FALSE(move_expression("y = f(x) + f(x)", "f(x)", "b.device"));
}

TEST(SourceLine, EveryFactoryIsGivenADevice) {
  EXPECT_EQ(give_device_to_all("p = N(torch.zeros(n), torch.ones(n))", "\"cuda:0\""),
            "p = N(torch.zeros(n, device=\"cuda:0\"), torch.ones(n, device=\"cuda:0\"))");
  EXPECT_FALSE(give_device_to_all("p = N(torch.zeros(n, device=d), torch.ones(n))", "\"cuda:0\""));
  EXPECT_FALSE(give_device_to_all("p = N(0, 1)", "\"cuda:0\""));
}

TEST(SourceLine, AFactoryBesideATensorIsGivenADevice) {
  EXPECT_EQ(give_device_beside("y = torch.cat([torch.zeros(n), x[0]])", "x", "x.device"),
            "y = torch.cat([torch.zeros(n, device=x.device), x[0]])");
  EXPECT_EQ(give_device_beside("return x[:, None] + torch.arange(n)", "x", "x.device"),
            "return x[:, None] + torch.arange(n, device=x.device)");
  EXPECT_FALSE(give_device_beside("y = torch.zeros(len(x))", "x", "x.device")) << "of its length alone";
  EXPECT_FALSE(give_device_beside("y = x + torch.arange(n, device=d)", "x", "x.device"));
  EXPECT_FALSE(give_device_beside("y = z + torch.arange(n)", "x", "x.device"));
}

TEST(SourceLine, ValuesAreWrappedAndCallsExchanged) {
  EXPECT_EQ(wrap_value("self.x = [nn.Linear(2, 2) for _ in y]", "nn.ModuleList"),
            "self.x = nn.ModuleList([nn.Linear(2, 2) for _ in y])");
  EXPECT_FALSE(wrap_value("self.x = [a]  # two", "nn.ModuleList"));
  EXPECT_FALSE(wrap_value("self.x = [", "nn.ModuleList"));
  EXPECT_EQ(call_instead("return self.near(x, z)", "self.near", "self._near", "**self.near.keywords"),
            "return self._near(x, z, **self.near.keywords)");
  EXPECT_FALSE(call_instead("return self.near(x) + self.near(z)", "self.near", "self._near", ""));
}

TEST(SourceLine, APathOfModulesIsNoReference) {
  EXPECT_FALSE(is_reference("self.layers.0.weight"));
  EXPECT_TRUE(is_reference("self.layers[0].weight"));
}

TEST(SourceLine, MovesWithoutBlocking) {
  EXPECT_TRUE(says_current_device("x = x.cuda(non_blocking=True)"));
  EXPECT_FALSE(says_current_device("x = x.cuda(1, non_blocking=True)"));
  EXPECT_EQ(redirect_move("x = x.cuda(non_blocking=True)", "\"cuda:1\""), "x = x.to(\"cuda:1\", non_blocking=True)");
}

TEST(MoveValue, OfAnAssignmentAndOfWhatIsReturned) {
  EXPECT_EQ(move_value("x = f(y)", "w.device"), "x = f(y).to(w.device)");
  EXPECT_EQ(move_value("  return a + b", "w.device"), "return (a + b).to(w.device)");
  EXPECT_EQ(move_value("a, b = f(y)", "w.device"), std::nullopt);  // a tuple has no .to()
  EXPECT_EQ(move_value("f(y)", "w.device"), std::nullopt);
}

TEST(ReplaceValue, OfAnAssignment) {
  EXPECT_EQ(replace_value("a, b = f(y)  # both", "(each for each in f(y))"), "a, b = (each for each in f(y))  # both");
  EXPECT_EQ(called_in_value("points = self.grid(size, x.device)"), "grid");
  EXPECT_EQ(called_in_value("points = self.grid(size)[0]"), "");
  EXPECT_EQ(called_in_value("points = a(b) + c(d)"), "");
}

TEST(UnpackedNames, OfVariablesAlone) {
  EXPECT_EQ(unpacked_names("keys, values = f(x)"), (std::vector<std::string>{"keys", "values"}));
  EXPECT_TRUE(unpacked_names("x = f(a, b)").empty());
  EXPECT_TRUE(unpacked_names("self.x, y = f(a, b)").empty());
  EXPECT_TRUE(unpacked_names("f(a, b)").empty());
}

TEST(SayDevice, InThePlaceOfTheOneThatIsThere) {
  EXPECT_EQ(say_device("x = torch.zeros(3, device=self.device)", "y.device"), "x = torch.zeros(3, device=y.device)");
  EXPECT_EQ(say_device("x = torch.zeros(3)", "y.device"), std::nullopt);
}

TEST(OnlyMoves, OfStatementsThatAreNothingElse) {
  EXPECT_TRUE(only_moves("model.to(device)"));
  EXPECT_TRUE(only_moves("model = model.cuda()"));
  EXPECT_FALSE(only_moves("model = net.cuda()"));
  EXPECT_FALSE(only_moves("model.to(device).eval()"));
}

}  // namespace
}  // namespace devtrace::report::verdict

namespace devtrace::report::verdict {
namespace {

TEST(CppLine, ConstructorsAndWhatTheyConstruct) {
  EXPECT_EQ(constructed("Timer::Timer()"), "Timer");
  EXPECT_EQ(constructed("gpu::Event::Event(unsigned int)"), "gpu::Event");
  EXPECT_EQ(constructed("gpu::Handle<cublas::Of>::Handle<int>(int&&)"), "gpu::Handle<cublas::Of>");
  EXPECT_EQ(constructed("EncoderImpl::EncoderImpl"), "EncoderImpl") << "one that was inlined has no parameters";
  for (const char* other : {"main", "gpu::Event::record(gpu::Stream const&)", "Gate::ModuleHolder<int&, , void>(int&)",
                            "void ns::make<ns::make_type>(int)", "Timer::~Timer()", ""})
    EXPECT_EQ(constructed(other), "") << other;
}

TEST(CppLine, WhoMakesTheObject) {
  const auto frame = [](std::string_view function, int64_t line) {
    Frame frame;
    frame.file = "program.cpp", frame.function = function, frame.source = "Timer timer;";
    frame.line = line, frame.project = true;
    return frame;
  };
  Event made;
  made.native = {frame("Event::Event()", 3), frame("Timer::Timer()", 9), frame("main", 20)};
  EXPECT_EQ(innermost_outside_wrappers(made)->line, 20);
  made.choice.native = {frame("Timer::Timer()", 8)};
  EXPECT_EQ(innermost_outside_wrappers(made)->line, 9) << "this one chose the device itself";
  made.native = {frame("Event::Event()", 3)};
  EXPECT_EQ(innermost_outside_wrappers(made)->line, 3) << "the only one there is";
}

}  // namespace
}  // namespace devtrace::report::verdict

namespace devtrace::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Signature, NameWithoutTypesAndParameters) {
  EXPECT_EQ(name_in_signature("cudaError cudaMalloc<float>(float**, unsigned long)"), "cudaMalloc<float>");
  EXPECT_EQ(name_in_signature("main"), "main");
  EXPECT_EQ(name_in_signature("mine::Field::Field(unsigned long)"), "mine::Field::Field");
  EXPECT_EQ(name_in_signature("void (anonymous namespace)::step<int, std::less<int> >(int*)"),
            "(anonymous namespace)::step<int, std::less<int> >");
  EXPECT_EQ(name_in_signature("Functor::operator()(int) const"), "Functor::operator()");
  EXPECT_EQ(name_in_signature("bool Key::operator<(Key const&) const"), "Key::operator<");
  EXPECT_EQ(name_in_signature(""), "");
}

TEST(Signature, NameWithoutNamespaces) {
  EXPECT_EQ(unqualified_name("void mine::add<float, std::less<int> >(float*)"), "add");
  EXPECT_EQ(unqualified_name("Field<float> operator+<float>(Field<float> const&)"), "operator+");
  EXPECT_EQ(unqualified_name("bool Key<int>::operator<(Key const&) const"), "operator<");
  EXPECT_EQ(unqualified_name("bool operator< <int>(Key<int> const&, Key<int> const&)"), "operator<");
  EXPECT_EQ(unqualified_name("operators::add(int)"), "add");
  EXPECT_EQ(unqualified_name("void (anonymous namespace)::each<f(int)::{lambda(int)#1}>(int)"), "each");
  EXPECT_EQ(unqualified_name(""), "");
}

TEST(Signature, NameOfWhatIsDefinedInAFunction) {
  EXPECT_EQ(name_in_signature("main::{lambda()#1}::operator()() const"), "main::{lambda()#1}::operator()");
  EXPECT_EQ(name_in_signature("auto outer(int)::{lambda(auto:1)#1}::operator()<int>(int) const"),
            "outer(int)::{lambda(auto:1)#1}::operator()<int>");
  EXPECT_EQ(name_in_signature("main::'lambda'(a::B)::operator()(a::B) const"), "main::'lambda'(a::B)::operator()");
  EXPECT_EQ(name_in_signature("Key::operator()() const::Local::operator<(Local const&)"),
            "Key::operator()() const::Local::operator<");
  EXPECT_EQ(name_in_signature("main::{lambda"), "main::{lambda") << "cut off";
  EXPECT_EQ(unqualified_name("main::{lambda(a::B)#1}::operator()(a::B) const"), "operator()");
  EXPECT_EQ(unqualified_name("Key::operator()(int) const::{lambda(int)#1}::_FUN(int)"), "_FUN");
  EXPECT_EQ(short_name_in_signature("main::{lambda()#1}::operator()() const"), "main::{lambda()#1}::operator()");
  EXPECT_THAT(parameter_types("f(int)::{lambda(float)#1}::operator()(float) const"), ElementsAre("float"));
}

TEST(Signature, NameThatFitsALine) {
  EXPECT_EQ(short_name_in_signature("Field<float> mine::add<float, 4>(int)"), "mine::add<float, 4>");
  EXPECT_EQ(short_name_in_signature("void each<scale(double*, unsigned long, double)::{lambda(double)#1}>(double*)"),
            "each<…>");
  EXPECT_EQ(short_name_in_signature("Loader<std::vector<std::vector<std::vector<std::string> > >, int>::next<int>()"),
            "Loader<…>::next<int>");
  EXPECT_EQ(short_name_in_signature("bool Key::operator<(Key const&) const"), "Key::operator<");
}

TEST(Signature, TypesOfParameters) {
  EXPECT_THAT(parameter_types("saxpy(float, float const*, std::pair<int, int>, int (*)(int, int))"),
              ElementsAre("float", "float const*", "std::pair<int, int>", "int (*)(int, int)"));
  EXPECT_THAT(parameter_types("void none()"), IsEmpty());
  EXPECT_THAT(parameter_types("saxpy"), IsEmpty());
}

TEST(CppSource, ArgumentsOfALaunch) {
  const auto call = only_call("saxpy<<<dim3(4, 1), 256, 0, stream>>>(2.f, x[i], field(a, b)); // saxpy(1)", "saxpy");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->configuration, "dim3(4, 1), 256, 0, stream");
  EXPECT_THAT(call->arguments, ElementsAre("2.f", "x[i]", "field(a, b)"));
  const auto templated = only_call("add<float, 4><<<1, 32>>>(a, b);", "add");
  ASSERT_TRUE(templated);
  EXPECT_THAT(templated->arguments, ElementsAre("a", "b"));
}

TEST(CppSource, ArgumentsOfALaunchByAnArray) {
  const std::string_view list = "void* args[] = {&layer.query, (void*)&table, reinterpret_cast<void*>(&count)};\n";
  const auto given = [&](std::string_view above, std::string_view statement) {
    return launch_arguments(above, statement, "rotate");
  };
  const auto expected = ElementsAre("layer.query", "table", "count");
  EXPECT_THAT(given(list, "cudaLaunchKernel(rotate, grid, block, args, 0, stream);"), expected);
  EXPECT_THAT(given(list, "CHECK(cudaLaunchKernelExC(&config, (const void*)rotate, args));"), expected);
  EXPECT_THAT(given(list, "cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr);"), expected);
  EXPECT_THAT(given("std::array<void*, 2> args{{&a, &b}};\n", "cudaLaunchKernelExC(&config, f, args.data());"),
              ElementsAre("a", "b"));
  EXPECT_THAT(given("", "cudaLaunchKernelEx(&config, rotate, q, table, n);"), ElementsAre("q", "table", "n"));
  std::string node(list);
  node += "params.kernelParams = args;\n";
  EXPECT_THAT(given(node, "cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params);"), expected);
  EXPECT_THAT(given("", "cudaLaunchKernel(rotate, grid, block, args, 0, stream);"), IsEmpty()) << "a parameter";
}

TEST(CppSource, WhatAStatementMakes) {
  EXPECT_EQ(made_name("float* cosines = cosine_table(count);"), "cosines");
  EXPECT_EQ(made_name("p.srcPtr = make(source, p.count);"), "p.srcPtr");
  EXPECT_EQ(made_name("cudaMalloc((void**)&x, 4 * n);"), "x");
  EXPECT_EQ(made_name("CHECK(cudaMallocAsync(&buffers[i], n, streams[0]));"), "buffers[i]");
  EXPECT_EQ(made_name("thrust::device_vector<float> weights(1024, 1.f);"), "weights");
  EXPECT_EQ(made_name("return allocate(4);"), "");
  EXPECT_EQ(made_name("workspace.reserve(4);"), "");
}

const std::vector<std::string> kWorkspace = {
    "struct Shard {",                                   // 1
    "  int device;",                                    // 2
    "  float* x;",                                      // 3
    "};",                                               // 4
    "class Workspace {",                                // 5
    "  Workspace(int gpu) : device_(gpu) {}",           // 6
    "  void reserve(size_t count) {",                   // 7
    "    cudaMalloc(&data_, count);",                   // 8
    "  }",                                              // 9
    "  int device_;",                                   // 10
    "};",                                               // 11
    "void work(const Shard& shard, Workspace& own) {",  // 12
    "  for (int device = 0; device < 2; ++device) {",   // 13
    "    cudaSetDevice(device);",                       // 14
    "  }",                                              // 15
    "  step(shard.x);",                                 // 16
    "}",                                                // 17
};

TEST(CppSource, ExpressionsForADevice) {
  EXPECT_THAT(device_expressions(kWorkspace, 8), ElementsAre("device_"));
  EXPECT_THAT(device_expressions(kWorkspace, 14), ElementsAre("device", "shard.device"));
  EXPECT_THAT(device_expressions(kWorkspace, 16), ElementsAre("shard.device")) << "the loop is over";
  EXPECT_THAT(device_expressions(kWorkspace, 18), IsEmpty());
  const std::vector<std::string> one_line = {"struct Context { int device; };",
                                             "void choose(int device) {",
                                             "  cudaSetDevice(device);",
                                             "}",
                                             "void run(Context& ctx) {",
                                             "  ctx.device = 1;",
                                             "  step();"};
  EXPECT_THAT(device_expressions(one_line, 7), ElementsAre("ctx.device")) << "a member is no variable of that name";
}

TEST(CppSource, StreamOfALaunch) {
  EXPECT_EQ(stream_of_launch("  saxpy<<<grid(n, 2), 256, 0, streams[i]>>>(x, y);", "saxpy"), "streams[i]");
  EXPECT_EQ(stream_of_launch("  saxpy<float><<<4, 256, 0, this->stream>>>(x, y);", "saxpy"), "this->stream");
  EXPECT_EQ(stream_of_launch("  saxpy<<<4, 256>>>(x, y);", "saxpy"), "") << "the default one is not written";
  EXPECT_EQ(stream_of_launch("cudaLaunchKernel(f, dim3(1, 2), 32, arguments, 0, mine);", "saxpy"), "mine");
  EXPECT_EQ(stream_of_launch("cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, mine, arguments, 0);", "saxpy"), "mine");
  EXPECT_EQ(stream_of_launch("step(x, y, mine);", "saxpy"), "");
}

TEST(CppSource, ReceiverOfAMethod) {
  const auto call = only_call("auto y = net->fc[0].weight.matmul(torch::relu(x), \"a,b\");", "matmul");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->receiver, "net->fc[0].weight");
  EXPECT_THAT(call->arguments, ElementsAre("torch::relu(x)", "\"a,b\""));
  const auto free = only_call("return torch::add(left, right);", "add");
  ASSERT_TRUE(free);
  EXPECT_EQ(free->receiver, "");
  EXPECT_THAT(free->arguments, ElementsAre("left", "right"));
}

TEST(CppSource, NothingWhereItIsNotClear) {
  EXPECT_FALSE(only_call("add(a) + add(b);", "add")) << "two calls";
  EXPECT_FALSE(only_call("int add = x; // add(1)", "add"));
  EXPECT_FALSE(only_call("padded(a);", "add"));
  EXPECT_FALSE(only_call("add(a, b", "add")) << "the rest is in another line";
  EXPECT_FALSE(only_operator("a + b + c", "+"));
  EXPECT_FALSE(only_operator("++i;", "+"));
  EXPECT_FALSE(only_operator("f(-x)", "-"));
}

TEST(CppSource, SidesOfAnOperator) {
  const auto sum = only_operator("auto y = left.relu() + right[0];", "+");
  ASSERT_TRUE(sum);
  EXPECT_THAT(sum->arguments, ElementsAre("left.relu()", "right[0]"));
  const auto in_place = only_operator("x += y;", "+=");
  ASSERT_TRUE(in_place);
  EXPECT_THAT(in_place->arguments, ElementsAre("x", "y"));
  EXPECT_FALSE(only_operator("x += y;", "+"));
}

TEST(CppSource, NamesOfParameters) {
  EXPECT_EQ(name_of_parameter("const float* __restrict__ x"), "x");
  EXPECT_EQ(name_of_parameter("float y[4]"), "y");
  EXPECT_EQ(name_of_parameter("int n = 3"), "n");
  EXPECT_EQ(name_of_parameter("float*"), "");
  EXPECT_EQ(name_of_parameter("unsigned int"), "");
}

TEST(CppSource, LinesOfAStatement) {
  EXPECT_EQ(shape_of("copy(to, from,").open, 1);
  EXPECT_TRUE(shape_of("copy(to, from);  // of all").is_statement);
  EXPECT_FALSE(shape_of("Timer() { cudaEventCreate(&begin); }").is_statement);
  EXPECT_EQ(shape_of("     bytes);").open, -1);
  EXPECT_EQ(shape_of("say(\"(\");  // (").open, 0);
}

TEST(CppSource, SidesBesideTheOperatorsOwnName) {
  const auto sides = operator_arguments("Vec operator+(const Vec& o) const { return {t + o.t}; }  // +", "add");
  ASSERT_TRUE(sides);
  EXPECT_THAT(*sides, ElementsAre("t", "o.t"));
}

TEST(CppSource, WhatIsWrittenToStandsLastInTheOperatorsOrder) {
  const auto arguments = operator_arguments("at::add_out(host, a, b);", "add");
  ASSERT_TRUE(arguments);
  EXPECT_THAT(*arguments, ElementsAre("a", "b", "host"));
}

TEST(CppSource, CallsAndSigns) {
  EXPECT_TRUE(calls("return {x.cpu(), y};", "cpu"));
  EXPECT_FALSE(calls("return {x.gpu(), cpu};", "cpu"));
  EXPECT_FALSE(calls("// cpu()", "cpu"));
  EXPECT_TRUE(calls("return {a * b};", "operator*"));
  EXPECT_FALSE(calls("return {a, b};", "operator*"));
  EXPECT_FALSE(calls("f();", ""));
}

}  // namespace
}  // namespace devtrace::report
