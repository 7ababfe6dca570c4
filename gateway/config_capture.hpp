#pragma once
// [[capture]], [[redact]] and [[retention]] of the configuration.

#include "gateway/config.hpp"
#include "gateway/toml_reader.hpp"

#include <string>

namespace verbatim::gateway {

/// Appends what one table says to the configuration; mistakes are the reader's.
void read_capture_rule(TomlReader& reader, const toml::table& table, const std::string& key,
                       GatewayConfig& config);
void read_redaction_rule(TomlReader& reader, const toml::table& table, const std::string& key,
                         GatewayConfig& config);
void read_retention_rule(TomlReader& reader, const toml::table& table, const std::string& key,
                         GatewayConfig& config);

}  // namespace verbatim::gateway
