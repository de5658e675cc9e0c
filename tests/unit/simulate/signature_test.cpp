// What a kernel's name tells of its parameters.
#include "simulate/model/kernels/signature.h"

#include <gtest/gtest.h>

namespace devtrace::simulate {
namespace {

using Constness = ParameterType::Constness;

TEST(Signature, WhatPointersLeadTo) {
  struct Case {
    const char* mangled;
    Constness constness;
    bool leads_on;
  };
  for (const Case& each : {
           Case{"_Z1fPf", Constness::writable, false},
           Case{"_Z1fPKf", Constness::constant, false},
           Case{"_Z1fPv", Constness::writable, true},
           Case{"_Z1fPl", Constness::writable, true},
           Case{"_Z1fPPf", Constness::writable, true},
           Case{"_Z1fPKPf", Constness::constant, true},
           Case{"_Z1fPKPKf", Constness::constant, false},
           Case{"_Z1fPK6Sample", Constness::constant, true},
           Case{"_Z1f6Sample", Constness::unknown, true},
           Case{"_Z1fi", Constness::unknown, true},
       }) {
    const std::vector<ParameterType> found = signature(each.mangled);
    ASSERT_EQ(found.size(), 1u) << each.mangled;
    EXPECT_EQ(found[0].constness, each.constness) << each.mangled;
    EXPECT_EQ(found[0].leads_on, each.leads_on) << each.mangled;
  }
}

TEST(Signature, InTheOrderOfTheParameters) {
  const std::vector<ParameterType> found = signature("_Z1gIN2ns1TILi3EEEEvPT_PKfi");  // void g<ns::T<3> >(ns::T<3>*, …)
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found[0].leads_on);
  EXPECT_FALSE(found[1].leads_on);
  EXPECT_EQ(found[2].constness, Constness::unknown);
  EXPECT_TRUE(signature("triton_kernel").empty());
}

}  // namespace
}  // namespace devtrace::simulate
