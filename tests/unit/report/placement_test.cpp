#include "report/check/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/placement/name_groups.h"
#include "report/placement/placement.h"

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
