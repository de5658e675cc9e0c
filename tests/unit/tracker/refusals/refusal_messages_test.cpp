#include "tracker/refusals/refusal_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace devtrace::refusals;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {
constexpr const char* kNew =
    "Expected all tensors to be on the same device, but got index is on cuda:0, different from other tensors on cuda:1 "
    "(when checking argument in method wrapper_CUDA__index_select)";
constexpr const char* kOld =
    "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0! "
    "(when checking argument for argument index in method wrapper_CUDA__index_select)";
constexpr const char* kTypes =
    "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same";

RefusalMessage parsed(std::string_view message) {
  return parse(message, judge(message));
}
}  // namespace

TEST(Refusals, BothSpellingsOfTheDispatchersCheck) {
  for (const char* message : {kNew, kOld}) {
    EXPECT_EQ(parsed(message).likelihood, Likelihood::certain);
    EXPECT_EQ(parsed(message).argument, "index");
    EXPECT_EQ(parsed(message).method, "wrapper_CUDA__index_select");
  }
  EXPECT_THAT(parsed(kNew).devices_named, ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(parsed(kOld).devices_named, ElementsAre("cuda:1", "cuda:0"));
}

TEST(Refusals, TensorTypesNameDevices) {
  EXPECT_EQ(parsed(kTypes).likelihood, Likelihood::possible);
  EXPECT_THAT(parsed(kTypes).devices_named, ElementsAre("cuda", "cpu"));
}

TEST(Refusals, ElementwiseWithoutArgument) {
  const char* message =
      "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!";
  EXPECT_EQ(parsed(message).likelihood, Likelihood::certain);
  EXPECT_THAT(parsed(message).devices_named, ElementsAre("cuda:0", "cpu"));
  EXPECT_EQ(parsed(message).argument, "");
}

TEST(Refusals, OrdinaryErrorsAreNotLookedAt) {
  for (const char* message :
       {"mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "index 5 is out of bounds for dimension 0 with size 3",
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.00 GiB",
        "CUDA error: an illegal memory access was encountered", "expected scalar type Float but found Half"})
    EXPECT_EQ(parsed(message).likelihood, Likelihood::none) << message;
}

TEST(Refusals, PartsOfWordsAreNoDevices) {
  EXPECT_THAT(parsed("cpuinfo, mycuda:1, torch.device, cuda:x, xcpu").devices_named, ElementsAre("cuda"));
}
TEST(Refusals, NothingNamed) {
  EXPECT_THAT(parsed("").devices_named, IsEmpty());
}
TEST(Refusals, WhereOperandsLieIsNotWhatWasExpected) {
  EXPECT_THAT(parsed(kNew).devices_of_operands, ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(parsed(kOld).devices_of_operands, ElementsAre("cuda:1", "cuda:0"));
  EXPECT_THAT(parsed(kTypes).devices_of_operands, ElementsAre("cuda", "cpu"));
  EXPECT_THAT(parsed("tensor_split expected its indices to be on cpu, but it's on cuda:0").devices_of_operands,
              IsEmpty());
  EXPECT_THAT(
      parsed("indices should be either on cpu or on the same device as the indexed tensor (cuda:0)").devices_named,
      ElementsAre("cuda:0"));
}

TEST(Refusals, TheMetaDeviceIsNamedInMessagesOfTheCatalogueAlone) {
  const std::string_view known =
      "The optimizer has references to the model's meta-device parameters. Materializing them is is currently not "
      "supported. Create the optimizer after setting up the model, then call `fabric.setup_optimizers(optimizer)`.";
  EXPECT_EQ(parse(known, Likelihood::possible).devices_named, std::vector<std::string>{"meta"});
  EXPECT_TRUE(parse("no handler for a meta device on cuda:0", Likelihood::possible).devices_named ==
              std::vector<std::string>{"cuda:0"});
}

TEST(Refusals, DevicesOfAnExampleAreNotNamed) {
  EXPECT_THAT(parsed("the value needs to be a device name (e.g. cpu, cuda:0) or 'auto' but found cuda:7").devices_named,
              ElementsAre("cuda:7"));
  EXPECT_THAT(parsed("Expected one of cpu, cuda, meta device type at start of device string: gpu").devices_named,
              IsEmpty());
}

TEST(Refusals, AMissingKernelIsNoRefusalUnlessTheCpuHasOne) {
  const std::string not_cuda =
      "Could not run 'aten::slow_conv3d_forward' with arguments from the 'CUDA' backend. This "
      "could be because … 'aten::slow_conv3d_forward' is only available for these backends: ";
  EXPECT_EQ(parsed(not_cuda + "[CPU, Meta, AutogradCUDA].").likelihood, Likelihood::possible);
  EXPECT_EQ(parsed(not_cuda + "[Meta, CPU].").likelihood, Likelihood::possible);
  EXPECT_EQ(parsed(not_cuda + "[Meta, SparseCPU, AutogradCPU].").likelihood, Likelihood::none);
  EXPECT_EQ(
      parsed("Could not run 'aten::x' with arguments from the 'CPU' backend. 'aten::x' is only available for these "
             "backends: [CUDA].")
          .likelihood,
      Likelihood::none);
  EXPECT_EQ(
      parsed("Could not run 'aten::x' with arguments from the 'SparseCsrCUDA' backend. 'aten::x' is only available "
             "for these backends: [Meta, SparseCsrCPU, CPU].")
          .likelihood,
      Likelihood::possible);
  EXPECT_EQ(parsed(not_cuda).without_kernel, "aten::slow_conv3d_forward");
  EXPECT_EQ(parsed(kTypes).without_kernel, "");
}

TEST(Refusals, AnArgumentThatOnlyTheCpuMayHave) {
  const char* lengths = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor";
  EXPECT_EQ(parsed(lengths).likelihood, Likelihood::certain);
  EXPECT_TRUE(parsed(lengths).wants_cpu);
  EXPECT_EQ(parsed(lengths).argument, "lengths");
  EXPECT_FALSE(parsed("'lengths' argument should be a 1D CPU int64 tensor, but got 2D CPU Long tensor").wants_cpu);
}

TEST(Refusals, AGeneratorOfAnotherDevice) {
  EXPECT_EQ(parsed("Expected a 'cuda' device type for generator but found 'cpu'").generator_wanted, "cuda");
  EXPECT_EQ(parsed(kNew).generator_wanted, "");
}
