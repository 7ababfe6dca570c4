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

/// The digits of a short number; whatever else is there, the caller prints what was read and compares.
std::uint64_t digits_in(std::string_view text) {
  std::uint64_t number = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

/// "x001/x234/067.p/5", loosely.
TileName numbered(std::string_view text) {
  TileName name;
  const std::size_t point = std::min(text.find(".p/"), text.size());
  if (point < text.size()) name.width = digits_in(text.substr(point + 3));
  name.index = digits_in(text.substr(0, point));
  return name;
}

constexpr std::size_t kPathBytesMax =
    40;  // 16 digits and what is between them: no number overflows

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

std::optional<TileName> parse_tile_path(std::string_view path) {
  constexpr std::string_view kPrefix = "tile/";
  if (path.size() > kPathBytesMax || !path.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = path.substr(kPrefix.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  if (slash == 0 || slash > 2 || slash == rest.size()) return std::nullopt;
  TileName name = numbered(rest.substr(slash + 1));
  name.level = static_cast<int>(digits_in(rest.substr(0, slash)));
  if (tile_path(name) != path) return std::nullopt;
  return name;
}

std::optional<TileName> parse_entries_path(std::string_view path) {
  constexpr std::string_view kPrefix = "tile/entries/";
  if (path.size() > kPathBytesMax || !path.starts_with(kPrefix)) return std::nullopt;
  const TileName name = numbered(path.substr(kPrefix.size()));
  if (entries_path(name.index, name.width) != path) return std::nullopt;
  return name;
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
