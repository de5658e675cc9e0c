#include "tracker/refusals/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tracker/refusals/pattern.h"

using namespace devtrace::refusals;
using devtrace::events::Refused;
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
  Refused refusal;
  refusal.message = message;
  return classify(refusal);
}

// The texts of the rows that say so.
std::vector<std::string_view> rows(std::string_view says) {
  std::vector<std::string_view> texts;
#define PATTERN(what, text, ...) \
  if (says == #what) texts.push_back(text);
#include "tracker/refusals/patterns.inc"
#undef PATTERN
  return texts;
}

// A message of that text.
std::string filled(std::string_view text, const std::string& hole) {
  std::string message;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      message += text[at];
      continue;
    }
    message += hole;
    at = text.find('}', at);
  }
  return message;
}

struct Known {
  std::string_view message;
  const char *operation, *at, *wanted;
};
constexpr const char* kPin = "torch.Tensor.pin_memory";
constexpr const char* kEvent = "torch.cuda.Event.record";
using namespace std::string_view_literals;
constexpr Known kKnown[] = {
    {"can't convert cuda:1 device type tensor to numpy. Use Tensor.cpu()", "torch.Tensor.numpy", "cuda:1", "cpu"},
    {"can't convert CUDA tensor to numpy. Use Tensor.cpu()", "torch.Tensor.numpy", "cuda", "cpu"},
    {"Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1.", "torch.load", "cuda:3",
     ""},
    {"Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.", "torch.load", "cuda",
     "cpu"},
    {"module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: "
     "cuda:1",
     "", "cuda:1", "cuda:0"},
    {"Broadcast function not implemented for CPU tensors", "", "cpu", "cuda"},
    {"Gather function not implemented for CPU tensors", "", "cpu", "cuda"},
    {"reduce_add expects all inputs to be on GPUs, but input 1 is on CPU", "", "cpu", "cuda"},
    {"cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", kPin, "cuda", "cpu"},
    {"cannot pin 'torch.storage.UntypedStorage' only CPU memory can be pinned", "torch.UntypedStorage.pin_memory", "",
     "cpu"},
    {"cannot pin 'CUDAFloatType' only dense CPU tensors can be pinned", kPin, "cuda", "cpu"},
    {"batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually.",
     "torch.nn.utils.rnn.PackedSequence", "cuda", "cpu"},
    {"Attempted to set the storage of a tensor on device \"cuda:0\" to a storage on different device \"cuda:1\".  This "
     "is no longer allowed; the devices must match.",
     "torch.Tensor.set_", "cuda:1", "cuda:0"},
    {"Cannot copy out of meta tensor; no data!", "", "meta", ""},
    {"Tensor.item() cannot be called on meta tensors", "torch.Tensor.item", "meta", ""},
    {"Tensor on device cuda:1 is not on the expected device meta!", "", "cuda:1", "meta"},
    {"Attempting to copy from device cuda:0 to device cuda:1, but cross-device copies are not allowed!", "", "cuda:0",
     "cuda:1"},
    {"Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different devices cuda:0, cpu",
     "aten.add.Tensor", "cpu", "cuda:0"},
    {"Can't export tensors on a different CUDA device index. Expected: 1. Current device: 0.",
     "torch.Tensor.__dlpack__", "cuda:1", "cuda:0"},
    {"CUDA error: invalid device ordinal", "", "", ""},
    {"CUDA error: invalid resource handle", "", "", ""},
    {"Invalid device id", "", "", ""},
    {"Invalid peer device id", "", "", ""},
    {"Invalid device argument 9: did you call init?", "", "cuda:9", ""},
    {"cufft_get_plan_cache_size: expected 0 <= device_index < 2], but got device_index=7", "", "cuda:7", ""},
    {"cufft_plan_cache: expected 0 <= device index < 2, but got device with index 7", "", "cuda:7", ""},
    {"Event device type cuda does not match recording stream's device type cpu.", "torch.Event.record", "cpu", "cuda"},
    {"Event device \0 does not match recording stream's device \1."sv, kEvent, "cuda:1", "cuda:0"},
    {"Event device index \0 does not match recording stream's device index \1."sv, kEvent, "cuda:1", "cuda:0"},
    {"device type cuda does not match device type of out parameter (cpu)", "", "cpu", "cuda"},
    {"Expected out tensor to have device cuda:0, but got cpu instead", "", "cpu", "cuda:0"},
    {"invalid gradient at index 0 - expected device cuda:0 but got cuda:1", "", "cuda:1", "cuda:0"},
    {"Function Twice returned an invalid gradient at index 0 - expected device cuda:0 but got cuda:1", "Twice",
     "cuda:1", "cuda:0"},
    {"attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'.", "torch.Tensor.grad",
     "cpu", "cuda"},
    {"attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'.",
     "torch.Tensor.grad", "", ""},
    {"Input and parameter tensors are not at the same device, found input tensor at cuda:1 and parameter tensor at "
     "cuda:0",
     "", "cuda:1", "cuda:0"},
    {"Expected scalars to be on CPU, got cuda:0 instead.", "", "cuda:0", "cpu"},
    {"_share_fd_: only available on CPU", "", "", "cpu"},
    {"_share_filename_: only available on CPU", "", "", "cpu"},
    {"tensor_split: if indices_or_sections is a tensor it must be on the CPU, but received one on cuda:0", "", "cuda:0",
     "cpu"},
    {"cannot repeat_interleave a meta tensor without output_size", "", "meta", ""},
    {"from_buffer: Not available for CUDA storage", "", "", "cpu"},
    {"FSDP parameters should be materialized from meta device before training, but the following were still on meta",
     "", "meta", "cuda"},
    {"0.weight is on the meta device, we need a `value` to put in on cuda:1.", "", "meta", "cuda:1"},
    {"You can't save the model since some parameters are on the meta device.", "", "meta", ""},
    {"You are using `from_pretrained` with a meta device context manager or `torch.set_default_device('meta')`.", "",
     "meta", ""},
    {"Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)", "", "cpu", "cuda"},
    {"Pointer argument cannot be accessed from Triton (cpu tensor?)", "", "cpu", "cuda"},
    {"Tensor found on device cuda:0 but backend constrained to cuda:1", "", "cuda:0", "cuda:1"},
    {"Attempt to perform collective on tensor not on device passed to init_process_group", "", "", ""},
    {"Expected tensor on cuda:1 but found tensor on cuda:0", "", "cuda:0", "cuda:1"},
};
}  // namespace

TEST(Pattern, HolesEndWhereWhatFollowsStandsFirst) {
  Match match;
  ASSERT_TRUE(matches("from {at} to {wanted}, {}!", "from cpu to cuda:1, not so!, but", match));
  EXPECT_EQ(match["at"], "cpu");
  EXPECT_EQ(match["wanted"], "cuda:1");
  EXPECT_EQ(match[""], "not so");
  EXPECT_EQ(match.length, std::string_view("from cpu to cuda:1, not so!").size());
  EXPECT_EQ(match["nothing of that name"], "");
  EXPECT_FALSE(matches("from {at} to {wanted}, {}!", "from cpu to cuda:1", match));
  EXPECT_FALSE(matches("from", "we say: from", match));
  EXPECT_TRUE(matches("{}from", "we say: from", match));
  EXPECT_FALSE(matches("from", "", match));
}

TEST(Pattern, AtTheEndANameIsOneWordAndNoneAllThatIsLeft) {
  Match match;
  ASSERT_TRUE(matches("on {at}", "on cuda:1, or so", match));
  EXPECT_EQ(match["at"], "cuda:1");
  ASSERT_TRUE(matches("on {}", "on cuda:1, or so", match));
  EXPECT_EQ(match[""], "cuda:1, or so");
  ASSERT_TRUE(matches("index {at#}", "index \x01.", match));
  EXPECT_EQ(match["at#"], "\x01");
}

TEST(Refusals, KnownOnesSayOperationAndDevices) {
  for (const Known& each : kKnown) {
    const RefusalMessage message = parsed(each.message);
    ASSERT_TRUE(message.known) << each.message;
    EXPECT_EQ(message.likelihood, Likelihood::certain);
    EXPECT_EQ(message.known->operation, each.operation) << each.message;
    EXPECT_EQ(message.known->at, each.at) << each.message;
    EXPECT_EQ(message.known->wanted, each.wanted) << each.message;
  }
}

TEST(Refusals, EachKnownOneHasAnExample) {
  Match match;
  for (const std::string_view text : rows("known"))
    EXPECT_TRUE(std::ranges::any_of(kKnown, [&](const Known& each) { return matches(text, each.message, match); }))
        << text;
  EXPECT_EQ(std::size(kKnown), rows("known").size());
}

TEST(Refusals, AnIndexMayBeOneCharacterOfItsValue) {
  const auto match = parsed("Event device \0 does not match recording stream's device \1."sv).known;
  ASSERT_TRUE(match);
  EXPECT_EQ(match->wanted, "cuda:0");
  EXPECT_EQ(match->at, "cuda:1");
}

TEST(Refusals, WhatHoldsNoDeviceIsNotKnown) {
  for (const char* message : {"", "can't convert", "can't convert cuda:0", "Event device", "CUDA error: out of memory",
                              "can't convert complex numbers of any kind tensor to numpy",
                              "my module must have its parameters and buffers on device cuda:0",
                              "Attempting to deserialize object on CUDA device x but why"})
    EXPECT_FALSE(parsed(message).known) << message;
}

TEST(Refusals, AnErrorMayStateWhatItsTextLeavesOut) {
  Refused refusal;
  EXPECT_FALSE(classify(refusal).known);
  refusal.operation = "aten.add.Tensor";
  refusal.at = "cpu";
  refusal.wanted = "cuda:0";
  const RefusalMessage message = classify(refusal);
  EXPECT_EQ(message.likelihood, Likelihood::certain);
  ASSERT_TRUE(message.known);
  EXPECT_EQ(message.known->operation, "aten.add.Tensor");
  EXPECT_EQ(message.known->at, "cpu");
  EXPECT_EQ(message.known->wanted, "cuda:0");
  EXPECT_TRUE(message.known->row->operand.empty());
}

TEST(Refusals, ADeviceCheckIsOneWhateverItsText) {
  Refused refusal;
  refusal.message = "text";
  EXPECT_EQ(classify(refusal).likelihood, Likelihood::none);
  refusal.method = "wrapper_CUDA__index_select";
  EXPECT_EQ(classify(refusal).likelihood, Likelihood::certain);
}

TEST(Refusals, TheCataloguesMessagesAreKnownWhateverTheyName) {
  for (const char* message :
       {"torch.block_diag: input tensors must all be on the same device. Input 0 is on device cuda:0 and input 1 is on "
        "device cuda:1",
        "When `right_inverse` outputs one tensor, it may not change the device.\noriginal.device: "
        "cuda:0\nright_inverse(original)."
        "device: cuda:1",
        "add: expected 'self' to be CUDA, but got CPU", "apply_ is only implemented on CPU tensors",
        "Expected cuda::check_device({r_, t, src}) to be true, but got false."})
    EXPECT_TRUE(parsed(message).catalogued) << message;
  for (const char* message : {"", "add: expected", "apply_", "CUDA error: out of memory", "the device is busy",
                              "We say: apply_ is only implemented on CPU tensors"})
    EXPECT_FALSE(parsed(message).catalogued) << message;
}

TEST(Refusals, EachTextOfTheTableSaysWhatItsRowSays) {
  for (const std::string_view text : rows("catalogued")) {
    const RefusalMessage message = parsed(filled(text, "7"));
    EXPECT_TRUE(message.catalogued || message.known) << text;
    EXPECT_TRUE(message.may_be_refusal()) << text;
  }
  for (const std::string_view text : rows("never")) EXPECT_EQ(parsed(text).likelihood, Likelihood::none) << text;
  for (const std::string_view text : rows("certain"))
    EXPECT_EQ(parsed(filled(text, "a message: ")).likelihood, Likelihood::certain) << text;
  for (const std::string_view text : rows("left_out"))
    EXPECT_THAT(parsed(filled(text.substr(2), "cuda:5") + " cuda:7").devices_named, ElementsAre("cuda:7")) << text;
  for (const std::string_view text : rows("meta"))
    EXPECT_THAT(parsed("apply_ is only implemented on CPU tensors, " + filled(text, " ")).devices_named,
                ElementsAre("meta"));
  for (const std::string_view text : rows("devices"))
    EXPECT_THAT(parsed(filled(text, " cuda:0 and cuda:1")).devices_of_operands, ElementsAre("cuda:0", "cuda:1"))
        << text;
}

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
  EXPECT_EQ(parsed(known).devices_named, std::vector<std::string>{"meta"});
  EXPECT_TRUE(parsed("no handler for a meta device on cuda:0").devices_named == std::vector<std::string>{"cuda:0"});
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
  EXPECT_EQ(parsed(not_cuda + "[CPU, Meta].").without_kernel, "aten::slow_conv3d_forward");
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
