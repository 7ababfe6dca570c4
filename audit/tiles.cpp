#include "audit/tiles.hpp"

#include <algorithm>

namespace verbatim::audit {

namespace {

std::string three_digits(std::uint64_t n) {
  std::string text = std::to_string(n);
  return std::string(3 - text.size(), '0') + text;
}

std::string partial(std::uint64_t width) {
  return width == kTileWidth ? "" : ".p/" + std::to_string(width);
}

}  // namespace

std::string tile_number(std::uint64_t n) {
  std::string path = three_digits(n % 1000);
  for (n /= 1000; n > 0; n /= 1000) path = "x" + three_digits(n % 1000) + "/" + path;
  return path;
}

std::string tile_path(const TileName& name) {
  return "tile/" + std::to_string(name.level) + "/" + tile_number(name.index) + partial(name.width);
}

std::string entries_path(std::uint64_t index, std::uint64_t width) {
  return "tile/entries/" + tile_number(index) + partial(width);
}

std::vector<TileName> tiles_of(std::uint64_t size) {
  std::vector<TileName> tiles;
  int level = 0;
  for (std::uint64_t hashes = size; hashes > 0; hashes /= kTileWidth, ++level) {
    const std::uint64_t full = hashes / kTileWidth;
    for (std::uint64_t n = 0; n < full; ++n) tiles.push_back({level, n, kTileWidth});
    if (hashes % kTileWidth != 0) tiles.push_back({level, full, hashes % kTileWidth});
  }
  return tiles;
}

void append_entry(std::string& bundle, std::string_view leaf) {
  VERBATIM_CHECK(leaf.size() <= 65'535);
  bundle.push_back(static_cast<char>(leaf.size() >> 8));
  bundle.push_back(static_cast<char>(leaf.size() & 0xff));
  bundle.append(leaf);
}

Result<std::vector<std::string_view>> split_entries(std::string_view bundle) {
  std::vector<std::string_view> leaves;
  while (!bundle.empty()) {
    const Bytes bytes = as_bytes(bundle);
    const std::size_t length =
        bundle.size() < 2 ? bundle.size() : std::size_t{bytes[0]} << 8 | bytes[1];
    if (bundle.size() < length + 2) {
      return Error{Errc::invalid_input, "an entry goes past the end of its bundle", "", ""};
    }
    leaves.push_back(bundle.substr(2, length));
    bundle.remove_prefix(length + 2);
  }
  return leaves;
}

Result<std::vector<Digest>> split_tile(std::string_view bytes, std::uint64_t width) {
  if (width > kTileWidth || bytes.size() != width * 32) {
    return Error{Errc::invalid_input,
                 "a tile of width " + std::to_string(width) + " has " +
                     std::to_string(bytes.size()) + " bytes",
                 "", ""};
  }
  std::vector<Digest> hashes(width);
  for (std::uint64_t i = 0; i < width; ++i) {
    const Bytes from = as_bytes(bytes.substr(i * 32, 32));
    std::copy(from.begin(), from.end(), hashes[i].bytes.begin());
  }
  return hashes;
}

}  // namespace verbatim::audit
