// The loader of shared libraries, and the hash.
#include <gtest/gtest.h>

#include "verbs/base/base.h"

namespace weft {
namespace {

TEST(DynamicLibrary, FindsFunctionsAndNamesTheFirstThatIsMissing) {
  double (*cosine)(double) = nullptr;
  double (*sine)(double) = nullptr;
  void (*newer)() = nullptr;
  DynamicLibrary file("libm.so.6");
  const Status found = file.find("cos", cosine).find_newer("weft_newer", newer).status("no maths");
  ASSERT_TRUE(found.ok()) << found.to_string();
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_EQ(newer, nullptr);
  const Status missing = file.find("weft_first", newer)
                             .find("weft_second", newer)
                             .find("sin", sine)
                             .status("no maths");
  EXPECT_EQ(missing.to_string(), "unavailable: no maths: libm.so.6 has no weft_first");
  EXPECT_EQ(sine, nullptr) << "nothing is looked up behind what is missing";
}

TEST(DynamicLibrary, ALibraryThatIsNotThereIsNamed) {
  void (*function)() = nullptr;
  const Status status =
      DynamicLibrary("libweft_absent.so.9").find("any", function).status("it cannot be used");
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_EQ(status.text().find("it cannot be used: libweft_absent.so.9"), 0u) << status.text();
  EXPECT_EQ(function, nullptr);
}

TEST(Hash, IsThePublishedFnv1aAndGoesOnOverParts) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(fnv1a64("bar", fnv1a64("foo")), fnv1a64("foobar"));
}

}  // namespace
}  // namespace weft
