// Time stamps in DER, and certificates in PEM.

#include "audit/timestamp.hpp"
#include "tests/fuzz/log_fixture.hpp"

namespace verbatim::fuzz {

namespace {

using namespace audit;

struct Stamped {
  test::LocalTsa tsa{"fuzz", kNowSeconds};
  std::string query = make_timestamp_query(sha256("note"));
  std::string answer = tsa.answer(query, kNowSeconds);
  std::string token = open_timestamp_answer(answer, query).value().der;
  TimestampTrust trust = TimestampTrust::from_pem(tsa.ca_pem()).value();
};

const Stamped& stamped_once() {
  static const Stamped made;
  return made;
}

void check_token(const TimestampToken& token) {
  const Stamped& real = stamped_once();
  VERBATIM_CHECK(is_utf8(token.tsa));
  const auto again = open_timestamp_token(token.der);
  VERBATIM_CHECK(again.has_value());
  VERBATIM_CHECK(again->imprint == token.imprint && again->time_us == token.time_us);
  if (!real.trust.check(token)) return;
  // The authority signed one statement.
  VERBATIM_CHECK(token.imprint == sha256("note"));
  VERBATIM_CHECK(token.time_us == kNowSeconds * 1'000'000);
}

void run(std::string_view input) {
  const Stamped& real = stamped_once();
  if (const auto token = open_timestamp_token(input)) check_token(*token);
  if (const auto token = open_timestamp_answer(input, real.query)) {
    check_token(*token);
    VERBATIM_CHECK(token->imprint == sha256("note"));
  }
  (void)timestamp_query_imprint(input);
  (void)open_timestamp_answer(real.answer, input);
  (void)TimestampTrust::from_pem(input);
}

std::vector<std::string> seeds() {
  const Stamped& real = stamped_once();
  return {real.token, real.answer, real.query, real.tsa.ca_pem()};
}

const Registration kTimestamp(
    {"timestamp",
     run,
     seeds,
     {std::string("\x30\x80", 2), std::string("\x00\x00", 2), "\x30\x84\x7f\xff\xff\xff",
      "\xa0\x82", "\x18\x0f", "20261130000000Z", "-----BEGIN CERTIFICATE-----\n",
      "-----END CERTIFICATE-----\n", "\x06\x0b\x2a\x86\x48\x86\xf7\x0d"}});

}  // namespace

}  // namespace verbatim::fuzz
