#include "replay/explanation.hpp"

namespace verbatim::replay {

namespace {

using local_engine::LayerCause;

Json cause_json(const LayerCause& cause) {
  Json json = {{"operator", local_engine::operator_name(cause.stage.op)},
               {"position", cause.position}};
  if (cause.stage.in_a_layer()) json["layer"] = cause.stage.layer;
  if (cause.last_position != cause.position) json["last_position"] = cause.last_position;
  return json;
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_unsigned() ? std::to_string(found->get<std::uint64_t>()) : "";
}

std::string cause_text(const Json& cause) {
  if (!cause.is_object()) return "?";
  const std::string layer = text_of(cause, "layer"), last = text_of(cause, "last_position");
  return (layer.empty() ? "" : "layer " + layer + ", ") + text_of(cause, "operator") +
         (last.empty() ? " at position " + text_of(cause, "position")
                       : " at positions " + text_of(cause, "position") + " to " + last);
}

}  // namespace

Json explanation_json(const Explanation& explanation) {
  Json json = {{"against", explanation.against}};
  if (!explanation.found) {
    json["problem"] = explanation.problem;
    return json;
  }
  if (explanation.answer_agrees) json["answer_agrees"] = true;
  const auto& found = *explanation.found;
  json["same"] = !found.first.has_value();
  json["stages"] = found.stages;
  json["positions"] = found.positions;
  if (!found.first) return json;
  json["choice"] = explanation.choice;
  json["first"] = cause_json(*found.first);
  // The row at a position chooses the token after it.
  if (found.first->position + 1 >= explanation.prompt_tokens)
    json["first"]["output"] = found.first->position + 1 - explanation.prompt_tokens;
  json["causes"] = Json::array();
  for (const LayerCause& cause : found.causes) json["causes"].push_back(cause_json(cause));
  return json;
}

std::string explanation_text(const Json& explanation) {
  if (!explanation.is_object()) return "";
  const std::string against = text_of(explanation, "against");
  const std::string other = against == "record" ? "the digests that the record keeps"
                                                : "another engine (" + against + ")";
  if (const std::string problem = text_of(explanation, "problem"); !problem.empty())
    return "compared with " + other + ": " + problem;
  const auto first = explanation.find("first");
  if (first == explanation.end()) {
    return "no difference from " + other + " in " + text_of(explanation, "stages") + " stages at " +
           text_of(explanation, "positions") + " positions";
  }
  std::string text = "the first difference from " + other + " is in " + cause_text(*first);
  if (explanation.value("answer_agrees", Json()) == true)
    text += ", though the answer is the engine's own: those digests were damaged or edited";
  const auto causes = explanation.find("causes");
  if (causes == explanation.end() || !causes->is_array() || causes->size() < 2) return text;
  text += "; operators that differ with equal inputs:";
  for (std::size_t i = 0; i < causes->size() && i < 5; ++i)
    text += (i == 0 ? " " : "; ") + cause_text((*causes)[i]);
  return causes->size() > 5 ? text + "; and " + std::to_string(causes->size() - 5) + " more" : text;
}

}  // namespace verbatim::replay
