#pragma once
// A forward pass in f64, written from the papers and for nothing but clarity: the yardstick of the
// f32 engine's error.

#include "tests/support/tiny_model.hpp"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace verbatim::test {

class ReferenceModel {
 public:
  using Row = std::vector<double>;

  explicit ReferenceModel(const TinyModel& model)
      : model_(model), tensors_(tiny_tensors(model)), config_(tiny_config(model)) {}

  /// Logits after each position of `ids`.
  std::vector<Row> logits(const std::vector<std::int32_t>& ids) const {
    std::vector<Row> x;
    for (const auto id : ids)
      x.push_back(row(tensor("model.embed_tokens.weight"), std::size_t(id)));
    for (std::size_t i = 0; i < model_.layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      add(x, attention(layer, norm(x, layer + "input_layernorm.weight")));
      add(x, feed_forward(layer, norm(x, layer + "post_attention_layernorm.weight")));
    }
    const auto last = norm(x, "model.norm.weight");
    std::vector<Row> out;
    for (const auto& each : last)
      out.push_back(product(each, model_.tied ? "model.embed_tokens" : "lm_head"));
    return out;
  }

 private:
  const TinyTensor& tensor(const std::string& name) const { return tensors_.at(name); }
  static Row row(const TinyTensor& matrix, std::size_t index) {
    const auto cols = static_cast<std::ptrdiff_t>(matrix.shape[1]);
    const auto begin = matrix.values.begin() + static_cast<std::ptrdiff_t>(index) * cols;
    return {begin, begin + cols};
  }
  static void add(std::vector<Row>& x, const std::vector<Row>& branch) {
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t c = 0; c < x[r].size(); ++c) x[r][c] += branch[r][c];
  }
  Row product(const Row& x, const std::string& name) const {
    const auto& w = tensor(name + ".weight");
    const auto bias = tensors_.find(name + ".bias");
    Row y(w.shape[0]);
    for (std::size_t n = 0; n < y.size(); ++n) {
      for (std::size_t k = 0; k < x.size(); ++k)
        y[n] += x[k] * double{w.values[n * w.shape[1] + k]};
      if (bias != tensors_.end()) y[n] += double{bias->second.values[n]};
    }
    return y;
  }
  Row norm(const Row& x, const TinyTensor& weights) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) +
                                       config_.at("rms_norm_eps").get<double>());
    Row y;
    for (std::size_t i = 0; i < x.size(); ++i)
      y.push_back(x[i] * scale * double{weights.values[i]});
    return y;
  }
  std::vector<Row> norm(const std::vector<Row>& x, const std::string& name) const {
    std::vector<Row> y;
    for (const auto& each : x) y.push_back(norm(each, tensor(name)));
    return y;
  }

  double inverse_frequency(std::size_t i) const {
    const double inverse = std::pow(config_.at("rope_theta").get<double>(),
                                    -2.0 * double(i) / double(model_.head_dim));
    if (!config_.contains("rope_scaling")) return inverse;
    const Json& kind = config_.at("rope_scaling");
    const double factor = kind.at("factor").get<double>();
    if (kind.at("rope_type") == "linear") return inverse / factor;
    const double original = kind.at("original_max_position_embeddings").get<double>();
    const double low = kind.at("low_freq_factor").get<double>();
    const double high = kind.at("high_freq_factor").get<double>();
    const double wavelength = 2 * std::numbers::pi / inverse;
    if (wavelength > original / low) return inverse / factor;
    if (wavelength < original / high) return inverse;
    const double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * inverse / factor + smooth * inverse;
  }
  void rotate(double* head, std::size_t position) const {
    const std::size_t half = model_.head_dim / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = double(position) * inverse_frequency(i);
      const double a = head[i], b = head[i + half];
      head[i] = a * std::cos(angle) - b * std::sin(angle);
      head[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  void prepare_heads(Row& x, std::size_t position, const std::string& norm_name) const {
    for (std::size_t at = 0; at < x.size(); at += model_.head_dim) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(at);
      if (model_.qk_norm) {
        const Row normed = norm(Row(begin, begin + static_cast<std::ptrdiff_t>(model_.head_dim)),
                                tensor(norm_name));
        std::copy(normed.begin(), normed.end(), begin);
      }
      rotate(&*begin, position);
    }
  }

  std::vector<Row> attention(const std::string& layer, const std::vector<Row>& x) const {
    std::vector<Row> q, k, v, out;
    for (std::size_t p = 0; p < x.size(); ++p) {
      q.push_back(product(x[p], layer + "self_attn.q_proj"));
      k.push_back(product(x[p], layer + "self_attn.k_proj"));
      v.push_back(product(x[p], layer + "self_attn.v_proj"));
      prepare_heads(q[p], p, layer + "self_attn.q_norm.weight");
      prepare_heads(k[p], p, layer + "self_attn.k_norm.weight");
    }
    const std::size_t window = config_.value("sliding_window", std::size_t{0});
    const std::size_t d = model_.head_dim;
    for (std::size_t p = 0; p < x.size(); ++p) {
      Row mixed(model_.heads * d);
      const std::size_t first = window > 0 && p >= window ? p - window + 1 : 0;
      for (std::size_t h = 0; h < model_.heads; ++h) {
        const std::size_t group = h / (model_.heads / model_.kv_heads);
        Row weights;
        double sum = 0;
        for (std::size_t j = first; j <= p; ++j) {
          double score = 0;
          for (std::size_t i = 0; i < d; ++i) score += q[p][h * d + i] * k[j][group * d + i];
          weights.push_back(std::exp(score / std::sqrt(double(d))));
          sum += weights.back();
        }
        for (std::size_t j = first; j <= p; ++j)
          for (std::size_t i = 0; i < d; ++i)
            mixed[h * d + i] += weights[j - first] / sum * v[j][group * d + i];
      }
      out.push_back(product(mixed, layer + "self_attn.o_proj"));
    }
    return out;
  }

  Row gated(const Row& x, const std::string& gate, const std::string& up,
            const std::string& down) const {
    Row g = product(x, gate);
    const Row u = product(x, up);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
    return product(g, down);
  }
  std::vector<Row> feed_forward(const std::string& layer, const std::vector<Row>& x) const {
    std::vector<Row> out;
    for (const auto& each : x) {
      if (model_.experts == 0) {
        out.push_back(
            gated(each, layer + "mlp.gate_proj", layer + "mlp.up_proj", layer + "mlp.down_proj"));
        continue;
      }
      const bool mixtral = model_.architecture == "MixtralForCausalLM";
      const std::string mlp = layer + (mixtral ? "block_sparse_moe." : "mlp.");
      Row weights = product(each, mlp + "gate");
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight);
      for (double& weight : weights) weight /= sum;
      std::vector<std::size_t> order(weights.size());
      for (std::size_t e = 0; e < order.size(); ++e) order[e] = e;
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return weights[a] > weights[b]; });
      order.resize(2);
      const bool renormalize = mixtral || config_.value("norm_topk_prob", false);
      const double total = renormalize ? weights[order[0]] + weights[order[1]] : 1;
      Row mixed(model_.hidden);
      for (const auto e : order) {
        const std::string expert = mlp + "experts." + std::to_string(e) + ".";
        const Row y =
            gated(each, expert + (mixtral ? "w1" : "gate_proj"),
                  expert + (mixtral ? "w3" : "up_proj"), expert + (mixtral ? "w2" : "down_proj"));
        for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] += weights[e] / total * y[i];
      }
      out.push_back(mixed);
    }
    return out;
  }

  TinyModel model_;
  TinyTensors tensors_;
  Json config_;
};

}  // namespace verbatim::test
