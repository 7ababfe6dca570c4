// Compressed bodies: whatever they are, no more comes out than was allowed for, and what was compressed comes back.

#include "gateway/content_coding.hpp"
#include "tests/fuzz/target.hpp"

#include <zlib.h>
#include <zstd.h>

#include <array>

namespace verbatim::fuzz {

namespace {

constexpr std::size_t kDecodedMax = 1 << 20;
constexpr std::array<std::string_view, 8> kCodings = {
    "gzip", "deflate", "br", "zstd", "identity", "gzip, br", "x-gzip", "deflate,gzip"};

std::string deflated(std::string_view text, int window) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstandard(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

/// The same bytes come back, and one byte less is too little room for them.
void check_back(std::string_view coding, const std::string& coded, std::string_view text) {
  const auto back = gateway::decode_content(coding, coded, text.size());
  VERBATIM_CHECK(back.has_value());
  VERBATIM_CHECK(*back == text);
  if (text.empty()) return;
  const auto cramped = gateway::decode_content(coding, coded, text.size() - 1);
  VERBATIM_CHECK(!cramped.has_value());
  VERBATIM_CHECK(cramped.error().code == Errc::out_of_range);
}

void run(std::string_view input) {
  const std::uint8_t choice = take_choice(input);
  const auto decoded =
      gateway::decode_content(kCodings[choice % kCodings.size()], input, kDecodedMax);
  VERBATIM_CHECK(!decoded || decoded->size() <= kDecodedMax);
  VERBATIM_CHECK(decoded || !decoded.error().what.empty());
  // The header's value is the server's as well.
  (void)gateway::decode_content(input, "bytes", kDecodedMax);
  if (choice >= 128) {
    check_back("gzip", deflated(input, 15 + 16), input);
    check_back("deflate", deflated(input, 15), input);
    check_back("deflate", deflated(input, -15), input);
    check_back("zstd", zstandard(input), input);
  }
}

std::vector<std::string> seeds() {
  const std::string text = "data: hello hello hello hello\n\n" + std::string(300, 'a');
  const std::string brotli("\x0B\x02\x80hello\x03", 9);
  std::string bomb = deflated(std::string(4 << 20, '\0'), 15 + 16);
  return {deflated(text, 15 + 16) + std::string(1, '\0'),
          deflated(text, 15) + '\1',
          deflated(text, -15) + '\1',
          brotli + '\2',
          zstandard(text) + '\3',
          deflated(deflated(text, 15), 15 + 16) + '\7',
          zstandard(std::string(4 << 20, 'z')) + '\3',
          bomb + std::string(1, '\0'),
          "gzip, deflate , br;q=1\xFF"};
}

const Registration kContentCoding({"content_coding",
                                   run,
                                   seeds,
                                   {std::string("\x1f\x8b\x08\x00", 4), "\x28\xb5\x2f\xfd",
                                    "\x50\x2a\x4d\x18", "gzip", "br", "zstd", ", "}});

}  // namespace

}  // namespace verbatim::fuzz
