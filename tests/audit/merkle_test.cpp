#include "audit/merkle.hpp"

#include "audit/tiles.hpp"
#include "schema/canonical_json.hpp"
#include "schema/file.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

namespace verbatim::audit {
namespace {

/// A tree in memory, kept as the log keeps it.
class Tree {
 public:
  void add(std::string_view leaf) { add_hash(leaf_hash(as_bytes(leaf))); }
  void add_hash(const Digest& hash) {
    range_.append(hash, [&](const Digest& completed) { nodes_.push_back(completed); });
  }
  [[nodiscard]] NodeSource nodes() const {
    return [this](int level, std::uint64_t n) -> Result<Digest> {
      const std::uint64_t id = stored_hash_index(level, n);
      if (id >= nodes_.size()) return Error{Errc::not_found, "no such node", "", ""};
      return nodes_[id];
    };
  }
  [[nodiscard]] const CompactRange& range() const { return range_; }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }

 private:
  CompactRange range_;
  std::vector<Digest> nodes_;
};

/// MTH by its definition: what everything else is compared with.
Digest root_by_definition(std::span<const std::string> leaves) {
  if (leaves.empty()) return empty_root();
  if (leaves.size() == 1) return leaf_hash(as_bytes(leaves[0]));
  std::size_t k = 1;
  while (k * 2 < leaves.size()) k *= 2;
  return node_hash(root_by_definition(leaves.first(k)), root_by_definition(leaves.subspan(k)));
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> leaves;
  for (std::size_t i = 0; i < count; ++i) leaves.push_back("leaf " + std::to_string(i));
  return leaves;
}

TEST(Merkle, RootsOfTheReferenceLeaves) {
  const char* const leaves[] = {"",
                                "00",
                                "10",
                                "2021",
                                "3031",
                                "40414243",
                                "5051525354555657",
                                "606162636465666768696a6b6c6d6e6f"};
  const char* const roots[] = {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                               "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                               "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
                               "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
                               "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                               "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
                               "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
                               "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
                               "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  CompactRange tree;
  EXPECT_EQ(tree.root().hex(), roots[0]);
  for (std::size_t i = 0; i < 8; ++i) {
    tree.append(leaf_hash(from_hex(leaves[i]).value()), [](const Digest&) {});
    EXPECT_EQ(tree.root().hex(), roots[i + 1]);
  }
}

TEST(Merkle, EveryProofOfEverySmallTreeVerifiesAndNoneWithABitFlipped) {
  const auto leaves = numbered(70);
  Tree tree;
  for (std::size_t size = 1; size <= leaves.size(); ++size) {
    tree.add(leaves[size - 1]);
    ASSERT_EQ(tree.node_count(), stored_hash_count(size));
    const Digest root = root_by_definition(std::span(leaves).first(size));
    ASSERT_EQ(tree.range().root(), root);
    ASSERT_EQ(tree_root(tree.nodes(), size).value(), root);
    ASSERT_EQ(load_edge(tree.nodes(), size)->root(), root);
    for (std::uint64_t i = 0; i < size; ++i) {
      auto proof = make_inclusion_proof(tree.nodes(), i, size).value();
      const Digest leaf = leaf_hash(as_bytes(leaves[i]));
      ASSERT_TRUE(verify_inclusion(i, size, leaf, proof, root));
      ASSERT_FALSE(verify_inclusion((i + 1) % (size + 1), size, leaf, proof, root));
      for (Digest& hash : proof) {
        hash.bytes[i % 32] ^= 1;
        ASSERT_FALSE(verify_inclusion(i, size, leaf, proof, root));
        hash.bytes[i % 32] ^= 1;
      }
    }
    for (std::uint64_t first = 1; first <= size; ++first) {
      auto proof = make_consistency_proof(tree.nodes(), first, size).value();
      const Digest old_root = root_by_definition(std::span(leaves).first(first));
      ASSERT_TRUE(verify_consistency(first, size, old_root, root, proof));
      for (Digest& hash : proof) {
        hash.bytes[first % 32] ^= 1;
        ASSERT_FALSE(verify_consistency(first, size, old_root, root, proof));
        hash.bytes[first % 32] ^= 1;
      }
    }
  }
  EXPECT_FALSE(make_inclusion_proof(tree.nodes(), 70, 70));
  EXPECT_FALSE(make_consistency_proof(tree.nodes(), 0, 70));
  EXPECT_FALSE(make_consistency_proof(tree.nodes(), 71, 70));
  EXPECT_FALSE(verify_consistency(0, 70, empty_root(), tree.range().root(), {}));
}

/// A hash of a public case. Some roots are not 32 bytes long, since their value must not matter: those become
/// another value that differs as they do.
Digest hash_in(const Json& text) {
  const auto bytes = from_base64(text.get<std::string>()).value();
  Digest digest;
  if (bytes.size() != digest.bytes.size()) return sha256(bytes);
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

/// Whether one of the public cases is accepted.
bool accepted(const Json& test) {
  std::vector<Digest> proof;
  if (test.at("proof").is_array()) {
    for (const Json& item : test.at("proof")) proof.push_back(hash_in(item));
  }
  if (test.contains("leafIdx")) {
    const auto is_hash = [&](const char* name) {
      return from_base64(test.at(name).get<std::string>())->size() == 32;
    };
    return is_hash("leafHash") && is_hash("root") &&
           verify_inclusion(test.at("leafIdx"), test.at("treeSize"), hash_in(test.at("leafHash")),
                            proof, hash_in(test.at("root")));
  }
  return verify_consistency(test.at("size1"), test.at("size2"), hash_in(test.at("root1")),
                            hash_in(test.at("root2")), proof);
}

TEST(Merkle, PublicCasesAsLines) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/merkle-rfc6962");
  int cases = 0;
  for (const char* name : {"inclusion.jsonl", "consistency.jsonl"}) {
    std::ifstream file(folder / name);
    for (std::string line; std::getline(file, line); ++cases) {
      const Json test = Json::parse(line);
      EXPECT_EQ(accepted(test), !test.at("wantErr").get<bool>()) << test.at("file");
    }
  }
  EXPECT_EQ(cases, 196);
}

TEST(Merkle, PublicCasesAsFiles) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/audit/merkle-testdata");
  int cases = 0;
  for (const char* name : {"inclusion", "consistency"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / name)) {
      if (entry.path().extension() != ".json") continue;
      const Json test = Json::parse(read_file(entry.path(), 1 << 20).value());
      EXPECT_EQ(accepted(test), !test.at("wantErr").get<bool>()) << entry.path();
      ++cases;
    }
  }
  EXPECT_EQ(cases, 196);
}

TEST(Tiles, PathsAndWidths) {
  EXPECT_EQ(tile_number(0), "000");
  EXPECT_EQ(tile_number(1'234'067), "x001/x234/067");
  EXPECT_EQ(tile_path({2, 1000, 256}), "tile/2/x001/000");
  EXPECT_EQ(tile_path({0, 273, 112}), "tile/0/273.p/112");
  EXPECT_EQ(entries_path(273, 112), "tile/entries/273.p/112");
  const auto layout = [](std::uint64_t size) {
    std::map<int, std::pair<std::uint64_t, std::uint64_t>> full_and_partial;
    for (const TileName& tile : tiles_of(size)) {
      auto& [full, partial] = full_and_partial[tile.level];
      if (tile.width == kTileWidth) {
        ++full;
      } else {
        partial = tile.width;
      }
    }
    return full_and_partial;
  };
  using Levels = std::map<int, std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(layout(0), (Levels{}));
  EXPECT_EQ(layout(255), (Levels{{0, {0, 255}}}));
  EXPECT_EQ(layout(256), (Levels{{0, {1, 0}}, {1, {0, 1}}}));
  EXPECT_EQ(layout(257), (Levels{{0, {1, 1}}, {1, {0, 1}}}));
  EXPECT_EQ(layout(65'535), (Levels{{0, {255, 255}}, {1, {0, 255}}}));
  EXPECT_EQ(layout(65'536), (Levels{{0, {256, 0}}, {1, {1, 0}}, {2, {0, 1}}}));
  EXPECT_EQ(layout(65'537), (Levels{{0, {256, 1}}, {1, {1, 0}}, {2, {0, 1}}}));
  EXPECT_EQ(layout(70'000), (Levels{{0, {273, 112}}, {1, {1, 17}}, {2, {0, 1}}}));
}

TEST(Tiles, BundlesRoundTripAndRefuseACutEnd) {
  std::string bundle;
  const std::string largest(65'535, 'x');
  for (const std::string& leaf : {std::string(), std::string("a"), largest}) {
    append_entry(bundle, leaf);
  }
  const auto leaves = split_entries(bundle).value();
  ASSERT_EQ(leaves.size(), 3u);
  EXPECT_EQ(leaves[1], "a");
  EXPECT_EQ(leaves[2], largest);
  EXPECT_FALSE(split_entries(std::string_view(bundle).substr(0, bundle.size() - 1)));
  EXPECT_FALSE(split_entries("\x01"));
  EXPECT_FALSE(split_tile(std::string(33, 'x'), 1));
  EXPECT_FALSE(split_tile(std::string(std::size_t{257} * 32, 'x'), 257));
}

}  // namespace
}  // namespace verbatim::audit
