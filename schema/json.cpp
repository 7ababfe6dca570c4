#include "schema/json.hpp"

VERBATIM_JSON_TEMPLATES(template, nlohmann::basic_json<>)
VERBATIM_JSON_TEMPLATES(template, nlohmann::basic_json<nlohmann::ordered_map>)
