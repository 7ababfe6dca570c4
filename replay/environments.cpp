#include "replay/environments.hpp"

#include "gateway/environment.hpp"
#include "replay/recorded.hpp"
#include "schema/clock.hpp"

#include <set>

namespace verbatim::replay {

namespace {

/// The facts of a leaf: its members that are texts, but for those that every leaf has.
std::map<std::string, std::string> facts_of(const Json& json) {
  static const std::set<std::string> kOfEveryLeaf = {"type", "id", "time"};
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string() && !kOfEveryLeaf.contains(name)) facts[name] = value.get<std::string>();
  }
  return facts;
}

}  // namespace

Environments::Environments(const Json& here) : here_(facts_of(here)) {}

const RecordedEnvironment* Environments::find(audit::RecordSource& reader, std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  if (const auto known = found_.find(index); known != found_.end()) return &known->second;
  const auto leaf = reader.leaf(index);
  if (!leaf || text_at(leaf->json, {"type"}) != "environment") return nullptr;
  RecordedEnvironment environment;
  environment.index = index;
  environment.time_us = time_at(leaf->json);
  environment.facts = facts_of(leaf->json);
  environment.differs = gateway::changed_facts(environment.facts, here_);
  return &found_.emplace(index, std::move(environment)).first->second;
}

}  // namespace verbatim::replay
