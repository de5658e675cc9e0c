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

// Everything that a log can say of somebody's program says "acme" here; tests/helpers/secret_log.py holds outputs to
// it.
Json secret_process() {
  return test::sample("secret.jsonl").process;
}

Json secret_finding() {
  return test::sample("secret.jsonl").finding;
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

TEST(Redact, WhichDeviceHadHowMuchMemoryStays) {
  Redactor redactor;
  const Json memory = redactor.record({{"record", "memory"}, {"device", "cuda:1"}, {"peak", 12}, {"acme", "acme"}});
  EXPECT_EQ(memory["device"], "cuda:1");
  EXPECT_EQ(memory["peak"], 12);
  EXPECT_FALSE(memory.contains("acme"));
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
