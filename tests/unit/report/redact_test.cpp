#include "report/log/redact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text/markdown.h"
#include "report/text/text.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using testing::HasSubstr;
using testing::Not;

// Everything that a log can say of somebody's program says "acme" here.
Json secret_process() {
  return Json::parse(
      R"({"record":"process","schema":1,"pid":7,"command":["/home/acme/bin/acme-run","--acme"],"host":"acme-1",
    "cwd":"/home/acme/work","python":"3.11.7","torch":"2.11.0","devices":[{"index":0,"name":"NVIDIA H100","uuid":"GPU-acme"}],
    "visible_devices":"GPU-acme","environment":{"RANK":"1","JOB":"acme"},"rehearsal":true,"acme":"acme"})");
}

Json secret_finding() {
  return Json::parse(
      R"json({"record":"finding","id":1,"kind":"refused-op","fingerprint":"00000000000000aa","time":5.5,"thread":7,"thread_name":"acme",
    "message":"Expected acme_tensor to be on cuda:0","operation":"acme::fused","argument":"acme_arg","method":"wrapper_acme","overload":"acme","devices":["cuda:0","cuda:1"],"acme":{"acme":1},
    "operands":[{"name":"acme_tensor.x","names":[{"frame":0,"name":"self.acme_tensor"}],"role":"attribute","device":"cuda:1","shape":[3],
      "expression":"acme_of('acme')","module_path":"acme.block","module_class":"AcmeBlock","root_class":"AcmeModel","hook":"AcmeHook","root_devices":["cuda:1"],
      "held_by":[{"frame":2,"name":"acme.acme_list[0]","holders":[{"name":"acme","kind":"module","class":"AcmeOwner","holds":"attribute","bound":{"file":"/home/acme/work/acme_bind.py","line":4,"source":"acme"}}]}],
      "given_by":{"name":"acme_giver","kind":"function","keeps":[{"name":"acme_kept","device":"cuda:1"}]},"moved_away":{"name":"acme_old","device":"cuda:0"},
      "kept_for":{"name":"acme_kept_for","device":"cuda:0"},
      "type":"Acme const*","parameter_name":"acme_in","argument":"acme_in",
      "moved":{"time":1.6,"thread":7,"from":"cpu","to":"cuda:1","python":[],"call":"cudaMemcpy","native":[{"module":"/home/acme/acme","function":"acme::move(Acme&)","offset":"0x3",
        "file":"/home/acme/m.cpp","line":8,"project":true,"inlined":true,"source":"acme.to(acme)","around":{"line":7,"text":"acme"}}]},
      "created":{"time":1.5,"thread":7,"device":"cpu","python":[{"file":"/home/acme/work/acme/io.py","line":3,"function":"load_acme",
        "source":"acme_tensor = read(f'{acme}/acme', \"acme\", '''acme''', device=\"cuda:0\")  # acme","project":true,
        "around":{"line":1,"text":"acme"}}]}}],
    "python":[{"file":"/venv/acme/lib/python3.11/site-packages/torch/nn/functional.py","line":9,"function":"embedding","source":"return torch.embedding(weight)"},
      {"file":"/venv/acme/lib/python3.11/site-packages/acme_private/core.py","line":2,"function":"acme_core","source":"go(acme)"},
      {"file":"/home/acme/work/main.py","line":12,"function":"AcmeModel.forward.<locals>.<lambda>","source":"y = self.acme_tensor @ w","project":true}],
    "native":[{"module":"/home/acme/libacme.so","function":"acme_step(Acme const&)","offset":"0x1","file":"/home/acme/a.cpp","line":4},
      {"module":"/venv/acme/lib/libtorch_cpu.so","function":"at::_ops::add::call","offset":"0x2"}],
    "launch":{"kernel":"void acme_kernel<float>(Acme*)","grid":[1,1,1],"block":[32,1,1]},
    "device_changes":[{"time":2.5,"device":"cuda:1","python":[{"file":"/home/acme/work/main.py","line":1,"function":"acme_setup","project":true}]}],
    "cause":{"category":"input-not-moved","confidence":"high","repairs":"line","because":"acme_tensor (made at io.py:3) is given to AcmeModel of acme/io.py, in acme_list of AcmeOwner (acme_bind.py:4), by acme_giver; was acme_old.",
      "fix":"self.acme_tensor = self.acme_tensor.to(w.device)","file":"/home/acme/work/main.py","line":12,
      "also":[{"file":"/home/acme/work/acme.py","line":9,"fix":"self.acme_other = self.acme_other.to(w.device)"}]},"count":1})json");
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

TEST(Redact, NothingOfTheProgramIsLeft) {
  Redactor redactor;
  const Json process = redactor.process(secret_process());
  const Json finding = redactor.record(secret_finding());
  const Json traffic = redactor.record(
      {{"record", "traffic"},
       {"id", 1},
       {"timed", {{"copies", 1}, {"bytes", 8}, {"nanoseconds", 5}}},
       {"python", {{{"file", "/home/acme/io.py"}, {"line", 5}, {"function", "acme"}, {"source", "acme()"}}}}});
  EXPECT_EQ(traffic["python"][0]["line"], 5);
  EXPECT_EQ(traffic["timed"]["nanoseconds"], 5);
  for (const Json& each : {process, finding, traffic}) EXPECT_THAT(lower(each.dump()), Not(HasSubstr("acme")));
  EXPECT_THAT(lower(markdown(process, finding)), Not(HasSubstr("acme")));
  EXPECT_THAT(lower(text(process, finding, false)), Not(HasSubstr("acme")));
}

TEST(Redact, WhatHelpsIsLeft) {
  Redactor redactor;
  const Json process = redactor.process(secret_process());
  const Json finding = redactor.record(secret_finding());
  EXPECT_EQ(process["torch"], "2.11.0");
  EXPECT_EQ(process["devices"][0]["name"], "NVIDIA H100");
  EXPECT_EQ(process["environment"], Json::parse(R"({"RANK":"1"})"));
  EXPECT_EQ(finding["fingerprint"], "00000000000000aa");
  EXPECT_EQ(finding["python"][0]["file"], "/site-packages/torch/nn/functional.py");
  EXPECT_EQ(finding["python"][0]["source"], "return torch.embedding(weight)");
  EXPECT_EQ(finding["python"][2]["line"], 12);
  EXPECT_EQ(finding["native"][1]["function"], "at::_ops::add::call");
  EXPECT_EQ(finding["operands"][0]["created"]["python"][0]["line"], 3);
  const Json& moved = finding["operands"][0]["moved"];
  EXPECT_EQ(moved["call"], "cudaMemcpy");
  EXPECT_EQ(moved["native"][0]["line"], 8);
  EXPECT_EQ(moved["native"][0]["project"], true);
  EXPECT_THAT(std::string(string(finding["operands"][0]["created"]["python"][0], "source")),
              HasSubstr("(f'…', \"…\", '…', device=\"cuda:0\")"));
}

TEST(Redact, OfAKernelItsNumbersStay) {
  Redactor redactor;
  const Json finding = redactor.record({{"record", "finding"},
                                        {"kind", "remote-access"},
                                        {"operation", "acme_kernel"},
                                        {"argument", "parameter 1"},
                                        {"message", "acme_kernel runs on cuda:0 and was given memory of cuda:1"},
                                        {"launch", {{"kernel", "void acme_kernel(float*)"}, {"parameter", 1}}}});
  const std::string name(string(finding, "operation"));
  EXPECT_THAT(lower(finding.dump()), Not(HasSubstr("acme")));
  EXPECT_EQ(finding["argument"], "parameter 1");
  EXPECT_EQ(finding["launch"]["kernel"], "void " + name + "(float*)");
  EXPECT_EQ(finding["message"], name + " runs on cuda:0 and was given memory of cuda:1");
}

TEST(Redact, OfARefusedLaunchItsStreamStays) {
  Redactor redactor;
  redactor.process(secret_process());
  const Json finding = redactor.record(
      {{"record", "finding"},
       {"kind", "wrong-current-device"},
       {"operation", "acme_kernel"},
       {"argument", "stream"},
       {"message", "acme_kernel was launched on a stream of cuda:1 while cuda:0 was current, which CUDA refuses"},
       {"operands", {{{"name", "acme->stream"}, {"role", "stream"}, {"device", "cuda:1"}}}},
       {"launch", {{"kernel", "void acme_kernel(float*)"}, {"stream_device", "cuda:1"}}}});
  EXPECT_THAT(lower(finding.dump()), Not(HasSubstr("acme")));
  EXPECT_EQ(finding["argument"], "stream");
  EXPECT_EQ(finding["launch"]["stream_device"], "cuda:1");
  EXPECT_EQ(finding["operands"][0]["role"], "stream");
  EXPECT_EQ(finding["message"], std::string(string(finding, "operation")) +
                                    " was launched on a stream of cuda:1 while cuda:0 was current, which CUDA refuses");
}

TEST(Redact, TheSameNameIsTheSameEverywhere) {
  Redactor redactor;
  redactor.process(secret_process());
  const Json finding = redactor.record(secret_finding());
  const std::string name(string(finding["operands"][0]["names"][0], "name").substr(5));
  EXPECT_EQ(string(finding["operands"][0], "name"), name + ".x");
  EXPECT_EQ(string(finding["python"][2], "source"), "y = self." + name + " @ w");
  EXPECT_EQ(string(finding["cause"], "fix"), "self." + name + " = self." + name + ".to(w.device)");
  EXPECT_THAT(std::string(string(finding["cause"], "because")), testing::StartsWith(name + " (made at file"));
  EXPECT_EQ(finding["cause"]["file"], finding["python"][2]["file"]);
  EXPECT_EQ(finding["cause"]["also"][0]["line"], 9);
  EXPECT_THAT(std::string(string(finding["cause"]["also"][0], "fix")), testing::EndsWith(".to(w.device)"));
}

TEST(Redact, TakesWhateverSomebodyWrote) {
  Redactor redactor;
  const auto it = test::sample("hostile.jsonl");
  const Json process = redactor.process(it.process);
  EXPECT_FALSE(markdown(process, redactor.record(it.finding)).empty());
  for (const char* malformed : {"[]", "7", "{}", R"({"operands":7,"python":[1,{"file":[],"source":"'''"}],"cause":[]})",
                                R"({"device_changes":[null],"launch":5,"operands":[{"names":[5],"created":[]}]})"})
    redactor.record(Json::parse(malformed));
}

// Names that begin as public ones do.
TEST(Redact, WhatOnlyLooksPublicIsHidden) {
  Redactor redactor;
  const auto hidden = [&](const Json& record) {
    const std::string text = redactor.record(record).dump();
    EXPECT_THAT(text, Not(testing::ContainsRegex("[Aa]cme"))) << record.dump();
    return text;
  };
  const auto launched = [&](const char* kernel) {
    return hidden(
        {{"record", "finding"}, {"kind", "remote-access"}, {"operation", kernel}, {"launch", {{"kernel", kernel}}}});
  };
  launched("custom_acme");
  launched("cuAcme");
  launched("cudaAcmeKernel");
  EXPECT_THAT(
      launched(
          "void at::native::vectorized_elementwise_kernel<4, acme::Functor<float>, at::detail::Array<char*, 3>>(int)"),
      HasSubstr("at::native::vectorized_elementwise_kernel<4, "));
  hidden({{"record", "finding"}, {"kind", "refused-op"}, {"operation", "aten::add<acme>"}});
  for (const char* library :
       {"/x/libcustom_acme.so", "/x/libnvacme.so.1", "/x/ld-acme.so", "/x/libtorch_acme.so", "/x/python3acme"})
    hidden({{"record", "finding"}, {"native", {{{"module", library}, {"function", "acme_step"}, {"offset", "0x1"}}}}});
  for (const char* file : {"/home/acme/lib/python3.11/acme.py", "/opt/lib/python3.12/acme/core.py", "<frozen acme>",
                           "<eval_with_key>.5 from /home/acme/model.py:3 in forward"})
    hidden({{"record", "finding"},
            {"python", {{{"file", file}, {"line", 1}, {"function", "acme"}, {"source", "acme()"}}}}});
  hidden({{"record", "finding"},
          {"operands", {{{"name", "blocks.3d_acme.weight"}, {"module_path", "3d_acme"}, {"device", "cpu"}}}}});
  for (const char* program : {"/usr/bin/python_acme", "python3acme"}) {
    const Json process = {
        {"record", "process"}, {"command", {program}}, {"torch", "2.4.0+acme.1"}, {"python", "3.11.7+acme"}};
    EXPECT_THAT(redactor.process(process).dump(), Not(HasSubstr("acme")));
  }
}

TEST(Redact, WhatIsPublicStays) {
  Redactor redactor;
  const Json copy = {{"record", "finding"}, {"kind", "copy-mismatch"}, {"operation", "cudaMemcpyAsync"}};
  EXPECT_EQ(redactor.record(copy)["operation"], "cudaMemcpyAsync");
  const Json frames = {{{"file", "/usr/lib/python3.11/threading.py"}, {"line", 1}, {"function", "run"}}};
  EXPECT_EQ(redactor.record({{"record", "finding"}, {"python", frames}})["python"][0]["file"],
            "/lib/python3.11/threading.py");
  const Json native = {{{"module", "/x/libcudart.so.13"}, {"function", "cudaMemcpy"}, {"offset", "0x1"}}};
  EXPECT_EQ(redactor.record({{"record", "finding"}, {"native", native}})["native"][0]["function"], "cudaMemcpy");
  const Json process = {{"record", "process"}, {"command", {"/usr/bin/python3.11"}}, {"torch", "2.4.0+cu121"}};
  EXPECT_EQ(redactor.process(process)["torch"], "2.4.0+cu121");
  EXPECT_EQ(redactor.process(process)["command"][0], "python3.11");
}

}  // namespace
}  // namespace devtrace::report
