#include "cli/replay_flags.hpp"

#include "kernels/backend.hpp"
#include "schema/clock.hpp"

namespace verbatim::cli {

void RecordFlags::add(CLI::App& command) {
  command.add_option("--id", selection.ids, "record ids");
  CLI::Option* since = command.add_option("--since", selection.since, "RFC 3339 time or date");
  command.add_option("--last", last_hours, "those of the last so many hours")
      ->check(whole_number(1, 1'000'000))
      ->excludes(since);
  command.add_option("--until", selection.until, "RFC 3339 time or date");
  command.add_option("--model", selection.model, "records that asked for this model");
  command.add_option("--tenant", selection.tenant, "records of this tenant");
  command
      .add_option("--sample", selection.sample,
                  "so many of the selected, drawn by a hash of checkpoint and id")
      ->check(whole_number(1));
  command.add_option("--checkpoint", checkpoint_file,
                     "draw by this checkpoint, and from the records before it; else the newest");
  command.add_flag("--all", all, "every exchange");
}

Result<void> RecordFlags::finish() {
  if (last_hours != 0) {
    constexpr std::int64_t kHourUs = 3'600'000'000;
    selection.since =
        format_rfc3339(SystemClock().now_us() - static_cast<std::int64_t>(last_hours) * kHourUs);
  }
  if (!all && selection.ids.empty() && selection.since.empty() && selection.until.empty() &&
      selection.model.empty() && selection.tenant.empty() && selection.sample == 0) {
    return Error{Errc::invalid_input, "nothing is selected", "",
                 "give --all, --id, --since, --last, --model, --tenant or --sample"};
  }
  if (!selection.ids.empty() && (all || !selection.since.empty() || !selection.until.empty() ||
                                 !selection.model.empty() || !selection.tenant.empty())) {
    return Error{Errc::invalid_input, "--id names its records: no other condition goes with it", "",
                 "leave out --id, or --all, --since, --last, --until, --model and --tenant"};
  }
  if (checkpoint_file.empty()) return {};
  auto note = read_note(checkpoint_file);
  if (!note) return note.error();
  selection.checkpoint = std::move(*note);
  return {};
}

Result<std::vector<replay::ModelPlace>> named_places(const std::vector<std::string>& assignments,
                                                     const char* flag) {
  std::vector<replay::ModelPlace> places;
  for (const std::string& text : assignments) {
    const auto pair = split_assignment(text);
    if (!pair) return pair.error();
    std::error_code ignored;
    if (!std::filesystem::exists(pair->second, ignored)) {
      return Error{Errc::not_found, "no model there", pair->second,
                   std::string("check ") + flag + " " + pair->first + "=PATH"};
    }
    places.push_back({pair->first, pair->second, /*vouched=*/true});
  }
  return places;
}

Result<local_engine::EngineOptions> engine_options(const EngineFlags& flags) {
  local_engine::EngineOptions options;
  options.backend = flags.backend;
  options.cuda_fallback = flags.cuda_fallback;
  options.threads = flags.threads;
  options.profile = flags.profile;
  if (const auto known = local_engine::check_backend(options); !known) return known.error();
  return options;
}

}  // namespace verbatim::cli
