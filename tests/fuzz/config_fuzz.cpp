// Configurations: a document is refused, or understood and described without a secret.

#include "gateway/config.hpp"
#include "gateway/json_scan.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

constexpr const char* kSecret = "s3cret-t0ken";

void run(std::string_view toml) {
  const auto config = gateway::parse_config(toml, "verbatim.toml");
  if (!config) {
    VERBATIM_CHECK(!config.error().what.empty());
    return;
  }
  const std::string described = gateway::describe_config(*config);
  VERBATIM_CHECK(gateway::is_json(described));
  if (config->admin_token == kSecret && config->tenant != kSecret) {
    VERBATIM_CHECK(described.find("\"" + std::string(kSecret) + "\"") == std::string::npos);
  }
  VERBATIM_CHECK(gateway::needs_restart(*config, *config).empty());
}

// Texts of several lines: NOLINTBEGIN(bugprone-suspicious-missing-comma)
std::vector<std::string> seeds() {
  return {
      "[gateway]\nlisten = \"127.0.0.1:8080\"\nadmin_token = \"s3cret-t0ken\"\ntenant = \"t\"\n"
      "[log]\ndata = \"d\"\nmode = \"overlap\"\non_failure = \"fail_open\"\n",
      "[cache]\npolicy = \"always\"\nttl_s = 5\nobserve_percent = 100\n[limits]\n"
      "header_bytes_max = 65_536\nrejections_per_s = 20.5\n[timeouts]\nclient_head_ms = 1\n",
      "[[upstream]]\nname = \"o\"\nurl = \"https://api.example.com/v1\"\nserver = \"vllm\"\n"
      "credential_env = \"KEY\"\n[[upstream]]\nname = \"a\"\nurl = \"http://[::1]:80\"\n"
      "dialect = \"anthropic\"\nenvironment_paths = [\"/version\"]\nenvironment_every_s = 9\n",
      "[[model]]\nname = \"demo\"\npath = \"m\"\nlayer_digest_bytes = 65_536\n[engine]\n"
      "backend = \"scalar\"\nthreads = 1\nkv_bytes_max = 1_000_000\n",
      "[[capture]]\nname = \"c\"\npath = \"/v1/embeddings*\"\nlevel = \"hashes\"\n[[redact]]\n"
      "name = \"r\"\npointers = [\"/messages/*/content\"]\npatterns = [\"email\"]\nheaders = "
      "[\"x\"]\n"
      "[[retention]]\nname = \"law\"\npath = \"*\"\ndays = 180\nbasis = \"b\"\n",
      "[[key]]\nname = \"k\"\nhash = \"vb1:01234567:000102030405060708090a0b0c0d0e0f:"
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"\nmodels = [\"a*\"]\n"
      "requests_per_minute = 6\nexpires = 2027-01-01T00:00:00Z\n",
      "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\nclient_ca = \"\"\n",
  };
}
// NOLINTEND(bugprone-suspicious-missing-comma)

const Registration kConfig({"config",
                            run,
                            seeds,
                            {"[[upstream]]\n", "[[key]]\n", "[gateway]\n", "'''", "\"\"\"",
                             "= 0x7fffffffffffffff", "= inf", "= nan", "= [", "{ a = 1 }", "= -1",
                             "1979-05-27T07:32:00Z", "\\U0010FFFF", "a.b.c = 1\n"}});

}  // namespace

}  // namespace verbatim::fuzz
