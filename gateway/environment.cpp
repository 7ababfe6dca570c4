#include "gateway/environment.hpp"

#include "gateway/header_rules.hpp"
#include "local_engine/engine.hpp"

#include <openssl/crypto.h>
#include <sys/utsname.h>

#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace verbatim::gateway {

namespace {

/// The value of the first line "key<blanks>: value" of a file; "" if there is none.
std::string value_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !std::string_view(line).starts_with(key)) continue;
    const std::size_t from = line.find_first_not_of(" \t", colon + 1);
    return from == std::string::npos ? "" : line.substr(from);
  }
  return "";
}

}  // namespace

Json describe_environment() {
  Json facts = Json::object();
  const auto put = [&](const char* name, std::string_view value) {
    if (!value.empty()) facts[name] = leaf_text(value, 512);
  };
  put("verbatim", VERBATIM_VERSION);
  put("build", local_engine::build_id());
  put("compiler", __VERSION__);
  utsname system{};
  if (uname(&system) == 0) {
    put("kernel", std::string(system.sysname) + " " + system.release);
    put("architecture", system.machine);
  }
  put("cpu", value_in("/proc/cpuinfo", "model name"));
  put("microcode", value_in("/proc/cpuinfo", "microcode"));
  put("memory", value_in("/proc/meminfo", "MemTotal"));
  put("cores", std::to_string(std::thread::hardware_concurrency()));
  put("openssl", OpenSSL_version(OPENSSL_VERSION));
  return facts;
}

std::vector<std::string> changed_facts(const Facts& before, const Facts& now, std::size_t most) {
  std::set<std::string> names;
  for (const auto& [name, value] : before) {
    const auto other = now.find(name);
    if (other == now.end() || other->second != value) names.insert(name);
  }
  for (const auto& [name, value] : now) {
    if (!before.contains(name)) names.insert(name);
  }
  std::vector<std::string> first(names.begin(), names.end());
  if (first.size() > most) first.resize(most);
  return first;
}

}  // namespace verbatim::gateway
