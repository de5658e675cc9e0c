#include "tracker/refusals/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace devtrace::refusals;
using devtrace::Device;
using devtrace::events::Raised;
using devtrace::events::Refused;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

constexpr const char* kTwoDevices =
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!";
constexpr const char* kNumpy = "can't convert cuda:1 device type tensor to numpy. Use Tensor.cpu()";
constexpr const char* kEvent = "CUDA error: invalid resource handle";
constexpr const char* kSomebodys = "my tensors are on cuda:0 and cuda:1";
constexpr const char* kCatalogued = "apply_ is only implemented on CPU tensors";
constexpr const char* kFake =
    "Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different devices cuda:0, cpu";
constexpr const char* kNoKernel =
    "Could not run 'aten::x' with arguments from the 'CUDA' backend. 'aten::x' is only available for these backends: "
    "[CPU, Meta].";

// The operands lie on these devices.
Facts on(std::initializer_list<const char*> devices) {
  Facts facts;
  for (const char* device : devices) facts.operands.push_back({device, false});
  facts.cuda = "cuda:0";
  facts.torch_read = true;
  return facts;
}

Decision decided(const char* text, const Facts& facts, Raised raised = Raised::checked) {
  Refused refusal;
  refusal.message = text;
  refusal.raised = raised;
  return decide(refusal, classify(refusal), facts);
}

std::vector<bool> mismatched(const Decision& decision) {
  std::vector<bool> all;
  for (const auto& each : decision.operands) all.push_back(each.mismatched);
  return all;
}

std::vector<size_t> kept(const Decision& decision) {
  std::vector<size_t> all;
  for (const auto& each : decision.operands) all.push_back(each.index);
  return all;
}

}  // namespace

TEST(Decide, ADeviceCheckIsARefusalWhateverTheOperandsLookLike) {
  const Decision decision = decided(kTwoDevices, on({}));
  EXPECT_TRUE(decision.refusal);
  EXPECT_THAT(decision.devices, ElementsAre("cuda:0", "cpu"));
  EXPECT_EQ(decision.wanted_device, "");
}

TEST(Decide, WhereOperandsLieComesBeforeWhatTheMessageNames) {
  EXPECT_THAT(decided(kTwoDevices, on({"cpu", "cuda:0"})).devices, ElementsAre("cpu", "cuda:0"));
}

TEST(Decide, WhatTheCheckItselfStatesIsTaken) {
  Refused refusal;
  refusal.message = "text";
  refusal.method = "wrapper_CUDA__index_select";
  refusal.argument = "index";
  refusal.common = Device::cuda(1);
  refusal.mismatched = Device::cpu();
  const Decision decision = decide(refusal, classify(refusal), on({}));
  EXPECT_TRUE(decision.refusal);
  EXPECT_EQ(decision.method, "wrapper_CUDA__index_select");
  EXPECT_EQ(decision.argument, "index");
  EXPECT_THAT(decision.devices, ElementsAre("cuda:1", "cpu"));
}

TEST(Decide, AGeneratorWasGivenToTheOperatorThatWasCalled) {
  Facts facts = on({"cpu", "cuda:0"});
  facts.at_work = {"aten::random_", "from"};
  facts.outermost = {"aten::randperm", "generator"};
  EXPECT_EQ(decided("Expected a 'cuda' device type for generator but found 'cpu'", facts).operation.name,
            "aten::randperm");
  EXPECT_EQ(decided(kTwoDevices, facts).operation.name, "aten::random_");
}

TEST(Decide, AnExceptionsWordsAreNoEvidence) {
  EXPECT_FALSE(decided(kSomebodys, on({"cuda:0"}), Raised::in_python).refusal);
  EXPECT_FALSE(decided(kSomebodys, on({"cuda:0"}), Raised::thrown).refusal);
  EXPECT_TRUE(decided(kSomebodys, on({"cuda:0", "cuda:1"}), Raised::in_python).refusal);
}

TEST(Decide, ACheckThatOnlySpeaksOfDevicesNeedsTwoOfThem) {
  constexpr const char* kDevice = "the device is busy";
  EXPECT_FALSE(decided(kDevice, on({"cuda:0"})).refusal);
  EXPECT_TRUE(decided(kDevice, on({"cuda:0", "cpu"})).refusal);
  Facts mentioned = on({"cuda:0"});
  mentioned.mentioned_devices = {"cpu"};
  EXPECT_TRUE(decided(kDevice, mentioned).refusal);
  EXPECT_TRUE(decided(kSomebodys, on({})).refusal);  // nothing is known to lie anywhere: as it says
  EXPECT_FALSE(decided(kSomebodys, on({"cuda:0"})).refusal);
}

TEST(Decide, ATextOfTheCatalogueIsBelievedUnlessTheProgramWroteIt) {
  Facts facts = on({"cuda:0"});
  EXPECT_TRUE(decided(kCatalogued, facts, Raised::in_python).refusal);
  facts.raised_by_program = true;
  EXPECT_FALSE(decided(kCatalogued, facts, Raised::in_python).refusal);
}

TEST(Decide, WhatSaysARefusalInOtherWordsIsNone) {
  Facts facts = on({"cuda:1"});
  facts.rephrases = true;
  EXPECT_FALSE(decided(kNumpy, facts, Raised::in_python).refusal);
}

TEST(Decide, AHandleIsRefusedWhereTwoDevicesMeet) {
  Facts facts = on({});
  facts.named_devices = {"cuda:0"};
  EXPECT_FALSE(decided(kEvent, facts).refusal);
  facts.named_devices = {"cuda:0", "cuda:1"};
  const Decision decision = decided(kEvent, facts);
  EXPECT_TRUE(decision.refusal);
  EXPECT_TRUE(decision.handles);
  EXPECT_THAT(decision.devices, ElementsAre("cuda:0", "cuda:1"));
}

TEST(Decide, OfAKnownRefusalOnlyTheOperandsThatItMeansCount) {
  const Decision decision = decided(kNumpy, on({"cpu", "cuda:1", "cuda:0"}));
  EXPECT_THAT(kept(decision), ElementsAre(1));
  EXPECT_THAT(mismatched(decision), ElementsAre(true));
  EXPECT_THAT(decision.devices, ElementsAre("cuda:1", "cpu"));
  EXPECT_EQ(decision.wanted_device, "cpu");
  EXPECT_EQ(decision.operation.name, "torch.Tensor.numpy");
}

TEST(Decide, TwoOperandsThatLieWhereItSaysAreNeitherTheMismatchedOne) {
  EXPECT_THAT(mismatched(decided(kNumpy, on({"cuda:1", "cuda:1"}))), ElementsAre(false, false));
}

TEST(Decide, WhereNoneLiesThereAllAreKept) {
  EXPECT_THAT(kept(decided(kNumpy, on({"cuda:0", "cuda:2"}))), ElementsAre(0, 1));
}

TEST(Decide, ADeviceOfTheMessagesOwnIsThatOfASecondOperand) {
  const Decision decision = decided(kFake, on({"cuda:0", "meta", "cpu"}));
  EXPECT_THAT(kept(decision), ElementsAre(0, 2));
  EXPECT_THAT(mismatched(decision), ElementsAre(false, true));
  EXPECT_EQ(decision.operation.name, "aten::add");
  EXPECT_EQ(decision.operation.overload, "Tensor");
}

TEST(Decide, AnOperatorsOwnArgumentsAreAllOperands) {
  Facts facts = on({"cpu", "cuda:1"});
  facts.complete = true;
  facts.operands[0].mismatched = true;
  EXPECT_THAT(mismatched(decided(kNumpy, facts)), ElementsAre(true, false));
}

TEST(Decide, WhatCudaMeansIsTheCurrentDevice) {
  Facts facts = on({"cpu"});
  facts.cuda = "cuda:1";
  const Decision decision = decided("Broadcast function not implemented for CPU tensors", facts);
  EXPECT_THAT(decision.devices, ElementsAre("cpu", "cuda:1"));
  EXPECT_EQ(decision.wanted_device, "cuda");
}

TEST(Decide, OfTheNumberOfADeviceOnlyTheMissingOneIsNamed) {
  Facts facts = on({});
  facts.devices = {"cuda:0"};
  facts.named_devices = {"cuda", "cuda:0", "cuda:7"};
  const Decision decision = decided("CUDA error: invalid device ordinal", facts);
  EXPECT_TRUE(decision.refusal);
  EXPECT_THAT(decision.devices, ElementsAre("cuda:7"));
  EXPECT_EQ(decision.device_count, 1u);
  // The message itself names it.
  EXPECT_THAT(decided("Invalid device argument 9: did you call init?", facts).devices, ElementsAre("cuda:9"));
}

TEST(Decide, WithoutAKernelOperandsOfOneDeviceBelongOnTheCpu) {
  const Decision decision = decided(kNoKernel, on({"cuda:0"}));
  EXPECT_TRUE(decision.refusal);
  EXPECT_EQ(decision.wanted_device, "cpu");
  EXPECT_THAT(decision.devices, ElementsAre("cuda:0", "cpu"));
  EXPECT_THAT(mismatched(decision), ElementsAre(true));
  EXPECT_EQ(decision.operation.name, "aten::x");
  EXPECT_EQ(decided(kNoKernel, on({"cuda:0", "cpu"})).wanted_device, "");
  EXPECT_FALSE(decided(kNoKernel, on({"cpu"})).refusal);
}

TEST(Decide, AnArgumentThatOnlyTheCpuMayHave) {
  const Decision decision =
      decided("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor", on({"cuda:0"}));
  EXPECT_EQ(decision.argument, "lengths");
  EXPECT_EQ(decision.wanted_device, "cpu");
  EXPECT_THAT(decision.devices, ElementsAre("cuda:0", "cpu"));
}

TEST(Decide, WhoExpectsAnErrorMakesItANoteUnlessACheckOfPyTorchsRaisedIt) {
  Facts facts = on({"cuda:0", "cpu"});
  facts.swallowed = "a tool shows values";
  EXPECT_FALSE(decided(kTwoDevices, facts).note);
  EXPECT_EQ(decided(kTwoDevices, facts, Raised::in_python).note, "a tool shows values");
  EXPECT_EQ(decided(kNumpy, on({"cuda:1"})).note, std::nullopt);
  facts = on({"cuda:1"});
  facts.swallowed = "a tool shows values";
  EXPECT_EQ(decided(kNumpy, facts).note, "a tool shows values");
}

TEST(Decide, TheOperationIsTheOneThatTheProgramAskedFor) {
  Facts facts = on({"cuda:0", "cpu"});
  const auto name = [&](const char* text) { return decided(text, facts).operation.name; };
  EXPECT_EQ(name(kTwoDevices), "");
  facts.called = "torch.stack";
  EXPECT_EQ(name(kTwoDevices), "torch.stack");
  facts.calling = {"aten::embedding", ""};
  EXPECT_EQ(name(kTwoDevices), "aten::embedding");
  EXPECT_EQ(name(kNoKernel), "aten::x");
  facts.jitted = "jiterator::gelu";
  EXPECT_EQ(name(kTwoDevices), "jiterator::gelu");
  facts.at_work = {"aten::sum", "dim_IntList"};
  EXPECT_EQ(name(kTwoDevices), "aten::sum");
  EXPECT_EQ(decided(kTwoDevices, facts).operation.overload, "dim_IntList");
  facts.asked = {"aten::addmm", ""};
  EXPECT_EQ(name(kTwoDevices), "aten::addmm");
  EXPECT_EQ(name(kFake), "aten::addmm");   // the text names a part of it
  EXPECT_NE(name(kNumpy), "aten::addmm");  // the text has its public name
}

TEST(Decide, WithoutPythonTheDispatcherAloneNamesTheOperation) {
  Facts facts = on({"cuda:1"});
  facts.torch_read = false;
  EXPECT_EQ(decided(kNumpy, facts).operation.name, "");
  facts.at_work = {"aten::add", ""};
  EXPECT_EQ(decided(kNumpy, facts).operation.name, "aten::add");
}

TEST(Decide, WhatIsNoRefusalSaysNothing) {
  const Decision decision = decided(kSomebodys, on({"cuda:0"}));
  EXPECT_FALSE(decision.refusal);
  EXPECT_THAT(decision.devices, IsEmpty());
}
