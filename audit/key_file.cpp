#include "audit/key_file.hpp"

#include "audit/pkcs11_uri.hpp"
#include "audit/token_key.hpp"
#include "schema/digest.hpp"
#include "schema/file.hpp"

#include <algorithm>

namespace verbatim::audit {

namespace {

constexpr std::uint64_t kBytesMax = 4096;

Result<KeyLine> parse_line(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    const auto seed = parse_skey(text);
    if (!seed) return seed.error();
    return KeyLine{std::string(text), seed->verifier(), ""};
  }
  const auto key = parse_vkey(text.substr(0, space));
  if (!key) return key.error();
  const std::string_view uri = text.substr(space + 1);
  if (const auto named = parse_pkcs11_uri(uri); !named) return named.error();
  return KeyLine{std::string(text), *key, std::string(uri)};
}

}  // namespace

Result<std::vector<KeyLine>> read_key_file(const std::filesystem::path& path) {
  const auto text = read_file(path, kBytesMax);
  if (!text) return text.error();
  std::vector<KeyLine> lines;
  std::string_view rest = *text;
  while (!rest.empty() || lines.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    auto parsed = parse_line(line);
    if (!parsed) {
      return Error{Errc::tampered, "the log's key is damaged: " + parsed.error().what,
                   path.string(), "restore it from its own backup"};
    }
    lines.push_back(std::move(*parsed));
  }
  return lines;
}

Result<KeyLine> new_key(const std::string& origin, const std::string& place) {
  if (place.empty()) {
    Ed25519Seed seed{};
    fill_random(seed);
    return parse_line(format_skey(origin, seed));
  }
  const auto uri = parse_pkcs11_uri(place);
  if (!uri) return uri.error();
  const auto key = TokenKey::open(*uri, origin);
  if (!key) return key.error();
  return parse_line((*key)->verifier().str() + " " + place);
}

Result<std::shared_ptr<LogKey>> open_key(const KeyLine& line) {
  if (line.uri.empty()) {
    auto seed = parse_skey(line.text);
    if (!seed) return seed.error();
    return std::shared_ptr<LogKey>(std::make_shared<SeedKey>(std::move(*seed)));
  }
  const auto uri = parse_pkcs11_uri(line.uri);
  if (!uri) return uri.error();
  auto key = TokenKey::open(*uri, line.key.name);
  if (!key) return key.error();
  if ((*key)->verifier() != line.key) {
    return Error{
        Errc::tampered,
        "the token's key is " + (*key)->verifier().str() + ", but the log's is " + line.key.str(),
        uri->shown(), "name the right key in log.key"};
  }
  return std::shared_ptr<LogKey>(std::move(*key));
}

Result<std::shared_ptr<LogKey>> load_log_key(const std::filesystem::path& data_dir) {
  const auto lines = read_key_file(data_dir / "log.key");
  if (!lines) return lines.error();
  return open_key(lines->front());
}

Result<std::shared_ptr<LogKey>> load_log_key(const std::filesystem::path& data_dir,
                                             const VerifierKey& key) {
  const auto lines = read_key_file(data_dir / "log.key");
  if (!lines) return lines.error();
  for (const KeyLine& line : *lines) {
    if (line.key == key) return open_key(line);
  }
  return Error{Errc::unavailable, "the key does not sign any more: " + key.str(),
               (data_dir / "log.key").string(), "try again"};
}

}  // namespace verbatim::audit
