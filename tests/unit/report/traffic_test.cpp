// Copies between devices, and where the models lie.
#include "report/traffic/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/check/placement.h"
#include "report/html/html.h"
#include "report/placement/name_groups.h"
#include "report/placement/placement.h"
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

TEST(TrafficReport, OfATokenIsWhatCrossesWhileTheProgramWorks) {
  const auto called_from = [](Json record, const char* file, const char* function) {
    record["python"].push_back({{"file", file}, {"line", 1}, {"function", function}});
    return record;
  };
  constexpr const char* kModule = "/lib/site-packages/torch/nn/modules/module.py";
  const Json plain = record(1, "cpu", "cuda:0", 400);
  Json before = record(2, "cpu", "cuda:0", 1000);
  before["before_forward"] = true;
  const Json saved = called_from(plain, "/lib/site-packages/torch/serialization.py", "save");
  EXPECT_TRUE(while_working(plain));
  EXPECT_FALSE(while_working(before));
  EXPECT_FALSE(while_working(saved));
  EXPECT_FALSE(while_working(called_from(plain, kModule, "Module.load_state_dict")));
  EXPECT_TRUE(while_working(called_from(plain, kModule, "Module.to")));
  EXPECT_TRUE(while_working(called_from(saved, kModule, "Module._call_impl"))) << "read from the disk at each call";
  Traffic traffic;
  traffic.take(plain);
  traffic.take(before);
  Json told = process("Tesla T4");
  told["tokens"] = 4;
  const auto pairs = traffic.pairs(told);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].bytes, 1400u);
  EXPECT_EQ(pairs[0].working_bytes, 400u);
  EXPECT_THAT(for_one_token(told, pairs[0]), HasSubstr("; a token 100 B, at least"));
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
  for (const Json& malformed :
       {Json(nullptr), Json(5), Json::object(),
        Json({{"id", "x"}, {"from", 5}, {"bytes", -1}, {"copies", "many"}, {"python", {1}}}),
        Json({{"id", 1}, {"from", "\033[2J"}, {"to", "`|\n"}, {"bytes", 1e300}, {"native", {nullptr}}}),
        Json({{"id", 2}, {"from", "a"}, {"to", "b"}, {"bytes", INT64_MAX}, {"copies", INT64_MAX}}),
        Json({{"id", 3}, {"from", "a"}, {"to", "b"}, {"bytes", INT64_MAX}, {"other", true}})}) {
    traffic.take(malformed);
    html_traffic(malformed, malformed);
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

namespace devtrace::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> grouped(const std::vector<std::string>& names, const std::vector<int>& colours) {
  std::vector<std::string> out;
  for (const NameGroup& group : grouped_names({names.begin(), names.end()}, colours))
    out.push_back(group.name + ":" + std::to_string(group.colour) + "x" + std::to_string(group.members.size()));
  return out;
}

TEST(NameGroups, AModuleStandsForAllItHolds) {
  EXPECT_THAT(grouped({"a.w", "a.b", "c.w"}, {0, 0, 0}), ElementsAre(":0x3"));
  EXPECT_THAT(grouped({"a.w", "a.b", "c.w"}, {0, 0, 1}), ElementsAre("a:0x2", "c.w:1x1"));
  EXPECT_THAT(grouped({"a.w", "a.b"}, {0, 1}), ElementsAre("a.w:0x1", "a.b:1x1"));
  EXPECT_THAT(grouped({}, {}), IsEmpty());
}

TEST(NameGroups, NumberedNeighboursAreOne) {
  std::vector<std::string> names;
  std::vector<int> colours;
  for (int layer = 0; layer < 12; ++layer)
    for (const char* what : {"q", "k"}) {
      names.push_back("model.layers." + std::to_string(layer) + "." + what);
      colours.push_back(layer < 8 || layer == 10);
    }
  EXPECT_THAT(grouped(names, colours), ElementsAre("model.layers.0-7,10:1x18", "model.layers.8-9,11:0x6"));
}

TEST(NameGroups, OnePartOfEveryLayer) {
  std::vector<std::string> names;
  std::vector<int> colours;
  for (int layer = 0; layer < 3; ++layer)
    for (int expert = 0; expert < 4; ++expert)
      for (const char* what : {"up", "down"}) {
        names.push_back("layers." + std::to_string(layer) + ".experts." + std::to_string(expert) + "." + what);
        colours.push_back(what == std::string("up") ? 0 : -1);
      }
  EXPECT_THAT(grouped(names, colours), ElementsAre("layers.0-2.experts.0-3.up:0x12"));
}

TEST(NameGroups, ANameIsNotCoveredByAnotherColour) {
  EXPECT_THAT(grouped({"a.x", "a.y", "a"}, {0, 0, -1}), ElementsAre("a.x:0x1", "a.y:0x1"));
  EXPECT_THAT(grouped({"a.b.x", "a.b.y", "a.c"}, {0, 0, -1}), ElementsAre("a.b:0x2"));
}

TEST(NameGroups, BearsNamesThatNobodyGives) {
  const std::string dots(100'000, '.');
  EXPECT_EQ(grouped_names({dots, "", "1", "99999999999999999999"}, {0, 1, 2, 3}).size(), 4u);
}

Json placed(int id, const char* root, std::vector<std::pair<const char*, const char*>> entries,
            const char* variable = "") {
  Json record{{"record", "placement"}, {"id", id}, {"root", root}, {"variable", variable}, {"entries", Json::array()}};
  for (const auto& [name, device] : entries)
    record["entries"].push_back({{"name", name}, {"device", device}, {"bytes", 4}});
  return record;
}

TEST(Placement, TheLastOfARootHolds) {
  Placement placement;
  placement.take(placed(1, "Net", {{"a", "cpu"}}));
  placement.take(placed(1, "Net", {{"a", "cuda:0"}}));
  placement.take(placed(2, "Linear", {{"weight", "cpu"}}));
  placement.take(placed(2, "Linear", {}));
  ASSERT_EQ(placement.roots().size(), 1u);
  EXPECT_EQ(placement.roots().front().tensors.front().device, "cuda:0");
}

TEST(Placement, OnlySeveralOfOneClassAreCalledByTheirVariables) {
  Placement placement;
  placement.take(placed(1, "Net", {{"a", "cpu"}}, "teacher"));
  EXPECT_EQ(placement.roots().front().name, "Net");
  placement.take(placed(2, "Net", {{"a", "cpu"}}, "student"));
  EXPECT_EQ(placement.roots().front().name, "Net (teacher)");
  placement.take(placed(3, "Net", {{"a", "cpu"}}));
  EXPECT_EQ(placement.roots().front().name, "Net");
}

TEST(Placement, WhatIsNoPlacementIsPassedOver) {
  Placement placement;
  placement.take({{"record", "placement"}, {"id", "x"}, {"root", 7}, {"entries", {1, "a", nullptr, {{"name", 3}}}}});
  EXPECT_TRUE(placement.roots().empty());
  EXPECT_EQ(placement_text(placement), "");
}

TEST(Placement, TiedTensorsCountOnce) {
  Placement placement;
  Json record = placed(1, "Net", {{"a", "cuda:0"}, {"b", "cuda:0"}});
  record["entries"][1]["same_as"] = "a";
  placement.take(record);
  EXPECT_EQ(rows_of(placement.roots().front()).front().bytes, 4u);
}

}  // namespace

namespace check {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> moved(const Places& before, const Places& now) {
  std::vector<std::string> out;
  for (const Displaced& each : changes(before, now).moved)
    out.push_back(each.names + ":" + *each.before.begin() + ">" + *each.now.begin());
  return out;
}

Places net(std::vector<std::pair<std::string, std::string>> tensors) {
  Places places;
  for (const auto& [name, device] : tensors) places["Net"][name].insert(device);
  return places;
}

TEST(PlacementChanges, OtherNumbersAreTheSamePlaces) {
  const Places before = net({{"a", "cuda:0"}, {"b", "cuda:0"}, {"c", "cuda:1"}});
  EXPECT_THAT(moved(before, net({{"a", "cuda:6"}, {"b", "cuda:6"}, {"c", "cuda:7"}})), IsEmpty());
  EXPECT_THAT(moved(before, net({{"a", "cuda:1"}, {"b", "cuda:1"}, {"c", "cuda:0"}})), IsEmpty());
  EXPECT_THAT(moved(before, net({{"a", "cuda:6"}, {"b", "cuda:7"}, {"c", "cuda:7"}})), ElementsAre("b:cuda:0>cuda:1"));
  EXPECT_THAT(moved(before, net({{"a", "cuda:6"}, {"b", "cuda:6"}, {"c", "cuda:6"}})), ElementsAre("c:cuda:1>cuda:0"));
  EXPECT_EQ(renumbered(before, net({{"a", "cuda:6"}, {"b", "cuda:6"}, {"c", "cuda:7"}})), before);
}

TEST(PlacementChanges, TheHostIsNoDeviceAmongOthers) {
  EXPECT_THAT(moved(net({{"a", "cuda:0"}}), net({{"a", "cpu"}})), ElementsAre("a:cuda:0>cpu"));
  EXPECT_THAT(moved(net({{"a", "cpu"}}), net({{"a", "meta"}})), ElementsAre("a:cpu>meta"));
}

TEST(PlacementChanges, AThirdDeviceDoesNotTakeTheNameOfAnother) {
  const Places before = net({{"a", "cuda:0"}, {"b", "cuda:0"}, {"c", "cuda:0"}, {"d", "cuda:1"}});
  EXPECT_THAT(moved(before, net({{"a", "cuda:5"}, {"b", "cuda:5"}, {"c", "cuda:1"}, {"d", "cuda:6"}})),
              ElementsAre("c:cuda:0>cuda:2"));
}

TEST(PlacementChanges, NewAndGoneAreNotMoved) {
  const PlacementChanges all = changes(net({{"a", "cpu"}, {"old", "cpu"}}), net({{"a", "cpu"}, {"new", "cpu"}}));
  EXPECT_THAT(all.moved, IsEmpty());
  ASSERT_EQ(all.added.size(), 1u);
  EXPECT_EQ(all.added.front().names, "new");
  ASSERT_EQ(all.gone.size(), 1u);
  EXPECT_EQ(all.gone.front().names, "old");
}

TEST(PlacementChanges, ARanksOwnDevice) {
  const auto of = [](const char* rank, const char* visible, const char* device) {
    Json process{{"environment", {{"LOCAL_RANK", rank}}}};
    if (*visible) process["visible_devices"] = visible;
    return device_of_rank(process, device);
  };
  EXPECT_EQ(of("3", "", "cuda:3"), "cuda:LOCAL_RANK");
  EXPECT_EQ(of("3", "", "cuda:0"), "cuda:0");
  EXPECT_EQ(of("3", "3", "cuda:0"), "cuda:LOCAL_RANK");
  EXPECT_EQ(of("3", "0,1,2,3", "cuda:0"), "cuda:0");
  EXPECT_EQ(of("3", "", "cpu"), "cpu");
  EXPECT_EQ(device_of_rank(Json::object(), "cuda:0"), "cuda:0");
}

}  // namespace
}  // namespace check
}  // namespace devtrace::report
