#include "cli/layer_files.hpp"

#include "cli/command.hpp"
#include "cli/show_text.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace verbatim::cli {

namespace {

using local_engine::LayerCause;
using local_engine::LayerDetail;
using local_engine::LayerDigests;
using local_engine::TokenId;

constexpr const char* kType = "verbatim/layer-digests";

Result<std::vector<TokenId>> ids_at(const Json& json, const char* name) {
  std::vector<TokenId> ids;
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array())
    return Error{Errc::invalid_input, std::string("no ") + name, "", ""};
  for (const Json& id : *found) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<TokenId>::max()})
      return Error{Errc::invalid_input, std::string(name) + " holds what is no token id", "", ""};
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<LayerFile> parsed(const Json& json) {
  if (!json.is_object() || text_at(json, "type") != kType || json.value("v", Json()) != 1)
    return Error{Errc::invalid_input, "not a file of layer digests", "",
                 "make one with verbatim engine score --layer-digests FILE"};
  LayerFile file;
  file.profile = text_at(json, "numerics_profile");
  file.backend = text_at(json, "backend");
  file.build = text_at(json, "build");
  file.weights_sha256 = text_at(json, "weights_sha256");
  for (auto [ids, name] :
       {std::pair(&file.prompt_ids, "prompt_ids"), std::pair(&file.output_ids, "output_ids")}) {
    auto read = ids_at(json, name);
    if (!read) return read.error();
    *ids = std::move(*read);
  }
  auto digests = LayerDigests::from_json(json.value("digests", Json()));
  if (!digests) return digests.error();
  file.digests = std::move(*digests);
  if (file.digests.positions() > file.prompt_ids.size() + file.output_ids.size())
    return Error{Errc::invalid_input, "there are more positions than tokens", "", ""};
  return file;
}

/// The first position with different tokens; nothing if one is the beginning of the other.
std::optional<std::size_t> first_other_token(const LayerFile& a, const LayerFile& b) {
  const auto all = [](const LayerFile& file) {
    auto ids = file.prompt_ids;
    ids.insert(ids.end(), file.output_ids.begin(), file.output_ids.end());
    return ids;
  };
  const auto x = all(a), y = all(b);
  const auto [at, other] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
  if (at == x.end() || other == y.end()) return std::nullopt;
  return static_cast<std::size_t>(at - x.begin());
}

OrderedJson cause_json(const LayerCause& cause) {
  OrderedJson json = {{"position", cause.position}};
  if (cause.last_position != cause.position) json["last_position"] = cause.last_position;
  if (cause.stage.in_a_layer()) json["layer"] = cause.stage.layer;
  json["operator"] = local_engine::operator_name(cause.stage.op);
  json["blocks"] = cause.blocks;
  return json;
}

OrderedJson side_json(const LayerFile& file) {
  return {{"numerics_profile", file.profile},
          {"backend", file.backend},
          {"build", file.build},
          {"weights_sha256", file.weights_sha256},
          {"stages", file.digests.stages().size()},
          {"positions", file.digests.positions()}};
}

std::string where(const LayerCause& cause) {
  return cause.position == cause.last_position ? "position " + std::to_string(cause.position)
                                               : "positions " + std::to_string(cause.position) +
                                                     " to " + std::to_string(cause.last_position);
}

int run_compare(const Context& context, const std::string& path_a, const std::string& path_b) {
  const auto a = read_layer_file(path_a);
  if (!a) return fail(a.error());
  const auto b = read_layer_file(path_b);
  if (!b) return fail(b.error());
  const auto token = first_other_token(*a, *b);
  const auto found = local_engine::compare_layers(a->digests, b->digests, token.value_or(SIZE_MAX));
  if (!found) return fail(found.error());
  const bool same = !found->first && !token;
  if (context.json) {
    OrderedJson json = {{"same", same},
                        {"positions", found->positions},
                        {"stages", found->stages},
                        {"tokens_differ_at", token ? OrderedJson(*token) : OrderedJson()},
                        {"first", found->first ? cause_json(*found->first) : OrderedJson()},
                        {"causes", OrderedJson::array()},
                        {"a", side_json(*a)},
                        {"b", side_json(*b)}};
    for (const LayerCause& cause : found->causes) json["causes"].push_back(cause_json(cause));
    print_json(json);
  } else {
    if (token) std::cout << "the tokens differ from position " << *token << " on\n";
    if (!found->first) std::cout << "no difference";
    for (const LayerCause& cause : found->causes) {
      std::cout << one_line(cause.stage.str()) << ": another result from the same input, first at "
                << where(cause) << '\n';
    }
    if (!found->first)
      std::cout << " in " << found->stages << " stages at " << found->positions << " positions\n";
    for (const auto& [name, side] : {std::pair(&path_a, &*a), std::pair(&path_b, &*b)}) {
      const std::size_t stages = side->digests.stages().size() - found->stages;
      const std::size_t positions = side->digests.positions() - found->positions;
      if (stages > 0 || positions > 0) {
        std::cout << "not compared, since the other has them not: " << stages << " stages and "
                  << positions << " positions of " << one_line(*name) << '\n';
      }
    }
  }
  return same ? kDone : kBadFinding;
}

}  // namespace

Result<void> write_layer_file(const std::string& path, const local_engine::Engine& engine,
                              const local_engine::GenerationRequest& request,
                              const local_engine::GenerationResult& result) {
  Json ids = Json::array();
  for (const auto& token : result.tokens) ids.push_back(token.id);
  const Json json = {{"type", kType},
                     {"v", 1},
                     {"numerics_profile", engine.profile()},
                     {"backend", engine.backend()},
                     {"build", local_engine::build_id()},
                     {"weights_sha256", engine.fingerprint().weights_sha256.hex()},
                     {"prompt_ids", request.prompt_ids},
                     {"output_ids", std::move(ids)},
                     {"digests", result.layer_digests->json()}};
  return write_output(path, json.dump() + "\n");
}

Result<LayerFile> read_layer_file(const std::string& path) {
  const auto text = read_input(path);
  if (!text) return text.error();
  const auto json = parse_json(*text);
  auto file = json ? parsed(*json) : Result<LayerFile>(json.error());
  if (!file) return Error{file.error().code, file.error().what, path, file.error().advice};
  return file;
}

void LayerFlags::add(CLI::App& command) {
  command.add_option("--layer-digests", file, "write digests of what each layer computed");
  command.add_option("--layer-detail", detail, "residual or operators")
      ->check(CLI::IsMember({"residual", "operators"}))
      ->capture_default_str();
}

LayerDetail LayerFlags::wanted() const {
  if (file.empty()) return LayerDetail::none;
  return detail == "operators" ? LayerDetail::operators : LayerDetail::residual;
}

void add_engine_compare(CLI::App& engine, Context& context) {
  struct Paths {
    std::string a, b;
  };
  auto paths = std::make_shared<Paths>();
  CLI::App* command = engine.add_subcommand(
      "compare", "two files of layer digests: the first position, layer and operator that differ");
  command->add_option("A", paths->a, "file of --layer-digests")->required();
  command->add_option("B", paths->b, "another")->required();
  add_common(*command, context, "verbatim engine compare here.json there.json");
  command->callback(
      [&context, paths] { context.exit_code = run_compare(context, paths->a, paths->b); });
}

}  // namespace verbatim::cli
