#include "tracker/evidence/operation.h"

#include <gtest/gtest.h>

using devtrace::evidence::operation_of;

TEST(Operation, IsTheStructureOfADispatcherEntry) {
  EXPECT_EQ(operation_of("at::_ops::index_select::call(at::Tensor const&, long, at::Tensor const&)"), "index_select");
  EXPECT_EQ(operation_of("at::_ops::add__Tensor::redispatch(c10::DispatchKeySet, at::Tensor&)"), "add__Tensor");
}
TEST(Operation, IsEmptyForAnythingElse) {
  EXPECT_EQ(operation_of("at::native::index_select(at::Tensor const&)"), "");
  EXPECT_EQ(operation_of("at::_ops::"), "");
  EXPECT_EQ(operation_of("at::_ops::cat::schema_str()"), "");
  EXPECT_EQ(operation_of(""), "");
}
