#include "report/traffic/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/report.h"
#include "report/text/markdown.h"
#include "report/traffic/interconnect.h"

namespace devtrace::report {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Json process(const char* name) {
  return {{"record", "process"},
          {"cwd", "/home/ada/app"},
          {"devices", {{{"index", 0}, {"name", name}}, {{"index", 1}, {"name", name}}}}};
}

Json record(int id, const char* from, const char* to, int64_t bytes, int64_t copies = 1) {
  return {{"record", "traffic"},
          {"id", id},
          {"from", from},
          {"to", to},
          {"bytes", bytes},
          {"copies", copies},
          {"python", {{{"file", "/home/ada/app/main.py"}, {"line", id}, {"function", "step"}, {"project", true}}}}};
}

constexpr uint64_t kGB = 1'000'000'000;

TEST(Links, FollowTheDevicesNames) {
  const Json h100 = process("NVIDIA H100 80GB HBM3");
  EXPECT_EQ(link_for(h100, "cpu", "cuda:0", false, 63 * kGB).name, "PCIe 5.0 x16");
  EXPECT_NEAR(link_for(h100, "cpu", "cuda:0", false, 63 * kGB).seconds, 1, 1e-9);
  EXPECT_EQ(link_for(h100, "cuda:0", "cuda:1", false, kGB).name, "NVLink");
  EXPECT_NEAR(link_for(h100, "cuda:0", "cuda:1", false, 450 * kGB).seconds, 1, 1e-9);
  EXPECT_EQ(link_for(h100, "cuda:0", "cuda:1", true, kGB).name, "PCIe 5.0 x16 twice, through the host");
  EXPECT_NEAR(link_for(h100, "cuda:0", "cuda:1", true, 63 * kGB).seconds, 2, 1e-9);
  EXPECT_EQ(link_for(process("NVIDIA H100 PCIe"), "cuda:0", "cuda:1", false, kGB).name, "PCIe 5.0 x16");
  EXPECT_EQ(link_for(process("Tesla T4"), "cuda:1", "cpu", false, kGB).name, "PCIe 3.0 x16");
  EXPECT_EQ(link_for(process("NVIDIA GH200 480GB"), "cpu", "cuda:0", false, kGB).name, "NVLink-C2C");
}

TEST(Links, SayWhatIsAssumed) {
  EXPECT_EQ(link_for(Json(), "cpu", "cuda:0", false, kGB).name, "PCIe 4.0 x16 (assumed)");
  EXPECT_EQ(link_for(process("Some Later Part"), "cuda:0", "cuda:1", true, kGB).name,
            "PCIe 4.0 x16 twice, through the host (assumed)");
  EXPECT_EQ(link_for(process("NVIDIA A100-SXM4-80GB"), "cpu", "cuda:7", false, kGB).name, "PCIe 4.0 x16 (assumed)");
}

TEST(TrafficReport, OfOneSiteTheLastRecordHolds) {
  Traffic traffic;
  EXPECT_TRUE(traffic.empty());
  traffic.take(record(1, "cpu", "cuda:0", 100));
  traffic.take(record(2, "cpu", "cuda:0", 50));
  traffic.take(record(1, "cpu", "cuda:0", 400, 4));
  const auto sites = traffic.call_sites(process("Tesla T4"));
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].bytes, 400u);
  EXPECT_EQ(sites[0].copies, 4u);
  const auto pairs = traffic.pairs(process("Tesla T4"));
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].bytes, 450u);
  EXPECT_EQ(pairs[0].copies, 5u);
}

TEST(TrafficReport, AnotherProgramOfTheSameProcessCountsAnew) {
  Traffic traffic;
  traffic.take(record(1, "cpu", "cuda:0", 100));
  traffic.begin_anew();
  traffic.take(record(1, "cpu", "cuda:0", 10));
  EXPECT_EQ(Traffic::sum(traffic.call_sites({})).bytes, 110u);
}

TEST(TrafficReport, WhatTheDeviceMeasuredIsNoEstimate) {
  const Json h100 = process("NVIDIA H100 80GB HBM3");
  Json timed = record(1, "cuda:0", "cuda:1", 3'000'000'000, 3);
  timed["timed"] = {{"copies", 2}, {"bytes", 2'000'000'000}, {"nanoseconds", 40'000'000}};
  Traffic traffic;
  traffic.take(timed);
  traffic.take(record(2, "cuda:0", "cuda:1", 1 << 20));
  const auto sites = traffic.call_sites(h100);
  EXPECT_TRUE(sites[0].link.measured);
  EXPECT_DOUBLE_EQ(sites[0].link.seconds, 0.06) << "the third copy is taken to be as fast";
  EXPECT_THAT(link_words(sites[0].link, sites[0].bytes), testing::EndsWith(", measured: 50 GB/s"));
  EXPECT_FALSE(sites[1].link.measured);
  EXPECT_EQ(traffic.pairs(h100).size(), 2u) << "what is measured and what is not do not mix";
  EXPECT_THAT(traffic_text(h100, traffic), HasSubstr("measured: 50 GB/s"));
  EXPECT_THAT(html_traffic(h100, timed), HasSubstr("measured: 50 GB/s"));
  timed["timed"] = {{"copies", 1}, {"bytes", -1}, {"nanoseconds", "soon"}};
  EXPECT_FALSE(link_of(h100, timed).measured);
}

TEST(TrafficReport, WhatTakesLongestComesFirst) {
  const Json h100 = process("NVIDIA H100 80GB HBM3");
  Traffic traffic;
  traffic.take(record(1, "cuda:0", "cuda:1", 1 << 20));
  traffic.take(record(2, "cpu", "cuda:1", 1 << 19));
  const auto sites = traffic.call_sites(h100);
  EXPECT_EQ(sites[0].from, "cpu") << "half of the bytes over a link of a seventh of the speed";
  const std::string text = traffic_text(h100, traffic);
  EXPECT_LT(text.find("step (main.py:2)"), text.find("step (main.py:1)"));
  EXPECT_THAT(text, HasSubstr("Traffic between devices: 1.5 MiB in 2 copies, at least "));
  EXPECT_THAT(text, HasSubstr("estimates"));
  EXPECT_THAT(traffic_markdown(h100, traffic), HasSubstr("| `step (main.py:2)` | `cpu` | `cuda:1` | 512 KiB | 1 |"));
}

TEST(TrafficReport, IsShort) {
  Traffic traffic;
  for (int id = 1; id <= 500; ++id) traffic.take(record(id, "cpu", "cuda:0", id));
  const std::string text = traffic_text(process("Tesla T4"), traffic);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_THAT(text, HasSubstr("and 490 more call sites"));
}

TEST(TrafficReport, NothingMovedNothingSaid) {
  EXPECT_THAT(traffic_text({}, {}), IsEmpty());
  EXPECT_THAT(traffic_markdown({}, {}), IsEmpty());
}

TEST(TrafficReport, TakesAnythingForARecord) {
  Traffic traffic;
  for (const Json& odd :
       {Json(nullptr), Json(5), Json::object(),
        Json({{"id", "x"}, {"from", 5}, {"bytes", -1}, {"copies", "many"}, {"python", {1}}}),
        Json({{"id", 1}, {"from", "\033[2J"}, {"to", "`|\n"}, {"bytes", 1e300}, {"native", {nullptr}}}),
        Json({{"id", 2}, {"from", "a"}, {"to", "b"}, {"bytes", INT64_MAX}, {"copies", INT64_MAX}}),
        Json({{"id", 3}, {"from", "a"}, {"to", "b"}, {"bytes", INT64_MAX}, {"other", true}})}) {
    traffic.take(odd);
    html_traffic(odd, odd);
  }
  const std::string text = traffic_text(Json(7), traffic);
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, HasSubstr("other call sites"));
  traffic_markdown(Json(7), traffic);
}

TEST(TrafficReport, NativeCallersAreNamed) {
  Json native = record(1, "cpu", "cuda:0", 1);
  native.erase("python");
  native["native"] = {{{"module", "/opt/lib/libx.so"}, {"function", "move_up"}, {"offset", "0x12"}}};
  EXPECT_EQ(call_site(native, ""), "move_up (libx.so+0x12)");
  native["native"][0]["file"] = "x.c";
  native["native"][0]["line"] = 4;
  EXPECT_EQ(call_site(native, ""), "move_up (x.c:4)");
  native.erase("native");
  EXPECT_EQ(call_site(native, ""), "an unknown place");
}

}  // namespace
}  // namespace devtrace::report
