#include "tracker/refusals/known_refusals.h"

#include <gtest/gtest.h>

using devtrace::refusals::is_catalogued;
using devtrace::refusals::known_refusal;

namespace {

struct Expected {
  const char* message;
  const char *operation, *at, *wanted;
};

}  // namespace

TEST(KnownRefusals, SayOperationAndDevices) {
  constexpr Expected kAll[] = {
      {"can't convert cuda:1 device type tensor to numpy. Use Tensor.cpu()", "torch.Tensor.numpy", "cuda:1", "cpu"},
      {"can't convert CUDA tensor to numpy. Use Tensor.cpu()", "torch.Tensor.numpy", "cuda", "cpu"},
      {"Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1.", "torch.load", "cuda:3",
       ""},
      {"module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: "
       "cuda:1",
       "", "cuda:1", "cuda:0"},
      {"Function Twice returned an invalid gradient at index 0 - expected device cuda:0 but got cuda:1", "Twice",
       "cuda:1", "cuda:0"},
      {"Invalid device argument 9: did you call init?", "", "cuda:9", ""},
      {"Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)", "", "cpu", "cuda"},
      {"Pointer argument cannot be accessed from Triton (cpu tensor?)", "", "cpu", "cuda"},
      {"Tensor on device cuda:1 is not on the expected device meta!", "", "cuda:1", "meta"},
      {"Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different devices cuda:0, cpu",
       "aten.add.Tensor", "cpu", "cuda:0"},
      {"cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "torch.Tensor.pin_memory", "cuda",
       "cpu"},
      {"Can't export tensors on a different CUDA device index. Expected: 1. Current device: 0.",
       "torch.Tensor.__dlpack__", "cuda:1", "cuda:0"},
  };
  for (const Expected& each : kAll) {
    const auto match = known_refusal(each.message);
    ASSERT_TRUE(match) << each.message;
    EXPECT_EQ(match->operation, each.operation);
    EXPECT_EQ(match->at, each.at);
    EXPECT_EQ(match->wanted, each.wanted);
  }
}

TEST(KnownRefusals, AnIndexMayBeOneCharacterOfItsValue) {
  using namespace std::string_view_literals;
  const auto match = known_refusal("Event device \0 does not match recording stream's device \1."sv);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->wanted, "cuda:0");
  EXPECT_EQ(match->at, "cuda:1");
}

TEST(KnownRefusals, TheCataloguesMessagesAreKnownWhateverTheyName) {
  for (const char* message :
       {"torch.block_diag: input tensors must all be on the same device. Input 0 is on device cuda:0 and input 1 is on "
        "device cuda:1",
        "When `right_inverse` outputs one tensor, it may not change the device.\noriginal.device: "
        "cuda:0\nright_inverse(original)."
        "device: cuda:1",
        "add: expected 'self' to be CUDA, but got CPU", "apply_ is only implemented on CPU tensors"})
    EXPECT_TRUE(is_catalogued(message)) << message;
  for (const char* message : {"", "add: expected", "apply_", "CUDA error: out of memory", "the device is busy",
                              "We say: apply_ is only implemented on CPU tensors"})
    EXPECT_FALSE(is_catalogued(message)) << message;
}

TEST(KnownRefusals, OtherErrorsAreNone) {
  for (const char* message : {"", "can't convert", "can't convert cuda:0", "Event device", "CUDA error: out of memory",
                              "can't convert complex numbers of any kind tensor to numpy",
                              "my module must have its parameters and buffers on device cuda:0",
                              "Attempting to deserialize object on CUDA device x but why"})
    EXPECT_FALSE(known_refusal(message)) << message;
}

TEST(KnownRefusals, AnErrorMayStateWhatItsTextLeavesOut) {
  devtrace::events::Refused refusal;
  EXPECT_FALSE(devtrace::refusals::stated_refusal(refusal));
  refusal.operation = "aten.add.Tensor";
  refusal.at = "cpu";
  refusal.wanted = "cuda:0";
  const auto match = devtrace::refusals::stated_refusal(refusal);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->operation, "aten.add.Tensor");
  EXPECT_EQ(match->at, "cpu");
  EXPECT_EQ(match->wanted, "cuda:0");
  EXPECT_TRUE(match->row->operand.empty());
}
