// What is sealed opens once, in its order, and not at all if a bit of it was changed on the way.
#include "engine/bootstrap/seal.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

constexpr std::size_t kMost = 1000;

const SealKeys kKeys = seal_keys("the key of a job in a test", "what was said");

TEST(Seal, RecordsComeBackInWhateverPieces) {
  Sealer sealer(kKeys.to_rank);
  Opener opener(kKeys.to_rank, kMost);
  std::string stream;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kMost})
    stream += sealer.seal(std::string(bytes, 'x'));
  EXPECT_EQ(stream.find("xxx"), std::string::npos) << "it is readable";
  std::vector<std::size_t> opened;
  for (const char byte : stream) {
    opener.append({&byte, 1});
    if (const auto record = opener.next().value()) opened.push_back(record->size());
  }
  EXPECT_EQ(opened, (std::vector<std::size_t>{0, 1, kMost}));
}

TEST(Seal, ABitThatChangesIsNoticed) {
  Sealer sealer(kKeys.to_rank);
  const std::string record = sealer.seal("a secret");
  for (std::size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string changed = record + std::string(2 * kMost, '\0');
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    Opener opener(kKeys.to_rank, kMost);
    opener.append(changed);
    const auto opened = opener.next();
    EXPECT_EQ(opened.status().code(), Code::no_permission) << bit;
  }
}

TEST(Seal, RepeatedMissingAndSwappedRecordsAreNoticed) {
  const auto is_taken = [](const std::string& stream) {
    Opener opener(kKeys.to_server, kMost);
    opener.append(stream);
    for (int record = 0; record < 2; ++record) {
      const auto opened = opener.next();
      if (!opened.ok() || !opened->has_value()) return false;
    }
    return true;
  };
  Sealer sealer(kKeys.to_server);
  const std::string first = sealer.seal("1"), second = sealer.seal("2"), third = sealer.seal("3");
  const std::string header = first.substr(0, 24), one = first.substr(24);
  EXPECT_TRUE(is_taken(header + one + second));
  EXPECT_FALSE(is_taken(header + one + one));
  EXPECT_FALSE(is_taken(header + second + one));
  EXPECT_FALSE(is_taken(header + one + third));
}

TEST(Seal, KeysAreOfOneDirectionOfOneConnectionOfOneJob) {
  const std::string record = Sealer(kKeys.to_rank).seal("a secret");
  const auto opens = [&record](const SealKey& key) {
    Opener opener(key, kMost);
    opener.append(record);
    return opener.next().ok();
  };
  EXPECT_TRUE(opens(kKeys.to_rank));
  EXPECT_FALSE(opens(kKeys.to_server));
  EXPECT_FALSE(opens(seal_keys("the key of a job in a test", "what was said then").to_rank));
  EXPECT_FALSE(opens(seal_keys("the key of another job", "what was said").to_rank));
}

// A length is checked before anything is kept for it.
TEST(Seal, ARecordThatIsTooLongIsRefusedAtItsLength) {
  Sealer sealer(kKeys.to_rank);
  Opener opener(kKeys.to_rank, kMost);
  opener.append(sealer.seal(std::string(kMost + 1, 'x')).substr(0, 28));
  EXPECT_EQ(opener.next().status().code(), Code::no_permission);
}

}  // namespace
}  // namespace weft::wire
