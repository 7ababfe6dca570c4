#include "gateway/router.hpp"

#include <boost/url/decode_view.hpp>
#include <boost/url/pct_string_view.hpp>

#include <algorithm>

namespace verbatim::gateway {

std::string model_of_path(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  const std::size_t at = path.find("/models/");
  if (at == std::string_view::npos) return "";
  const std::string_view id = path.substr(at + 8);
  const auto encoded = boost::urls::make_pct_string_view({id.data(), id.size()});
  if (!encoded) return std::string(id);
  const boost::urls::decode_view decoded = **encoded;
  return std::string(decoded.begin(), decoded.end());
}

void Router::set_local(std::unique_ptr<Upstream> local, std::vector<std::string> models) {
  local_ = std::move(local);
  local_models_ = std::move(models);
}

bool Router::has_local_model(std::string_view name) const {
  return std::find(local_models_.begin(), local_models_.end(), name) != local_models_.end();
}

void Router::set_remotes(std::vector<Remote> remotes) {
  drain();
  remotes_ = std::move(remotes);
}

std::shared_ptr<Upstream> Router::choose(const RequestHead& head, Api api,
                                         const RequestFacts& facts) const {
  if (local_) {
    const std::string model = api == Api::openai_models ? model_of_path(head.target) : facts.model;
    const bool list = api == Api::openai_models && model.empty();
    if (list || has_local_model(model)) return local_;
    // Without remotes the local engine answers what it has an error of its own for.
    if (remotes_.empty() && api != Api::generic) return local_;
  }
  const Dialect dialect = dialect_of(head);
  for (const Remote& remote : remotes_) {
    if (remote.dialect == dialect) return remote.upstream;
  }
  return remotes_.empty() ? nullptr : remotes_.front().upstream;
}

void Router::drain() {
  for (const Remote& remote : remotes_) remote.upstream->drain();
}

}  // namespace verbatim::gateway
