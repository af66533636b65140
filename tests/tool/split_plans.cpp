// SPDX-License-Identifier: MIT
// cleave split --for and --by with a plan: the words of Megatron-LM, torchtitan, DeepSpeed, vLLM, llama.cpp
// and onnxruntime-genai.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "support/model_corpus.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

namespace {

using cleave::testing::model_file;
using cleave::testing::run_tool;
using cleave::testing::scratch_folder;
using json = nlohmann::json;
using words = std::vector<std::string>;

std::string const frameworks[] = {"megatron", "torchtitan", "deepspeed", "vllm", "llama.cpp"};

void write(std::string const& file, std::string const& text) { std::ofstream(file) << text; }

json plan_of(words call) {
  call.insert(call.begin(), "split");
  call.push_back("--json");
  auto const r = run_tool(call);
  INFO(r.to_stderr);
  REQUIRE(r.exit == 0);
  return json::parse(r.said).at("plan");
}

std::string refusal(words const& call, int code) {
  auto const r = run_tool(call);
  CHECK(r.exit == code);
  CHECK(r.said.empty());
  return r.to_stderr;
}

/// A list of layers with an embedding, a norm and a head.
struct layer_list {
  std::vector<double> seconds;
  std::vector<double> bytes;

  std::size_t layers() const { return seconds.size() - 3; }
  std::string name(std::size_t i) const {
    return i == 0              ? "embed"
           : i <= layers()     ? "layers." + std::to_string(i - 1)
           : i == layers() + 1 ? "norm"
                               : "head";
  }
  std::string csv() const {
    std::string text;
    for (std::size_t i = 0; i < seconds.size(); ++i)
      text += name(i) + "," + std::to_string(seconds[i]) + "," +
              std::to_string(static_cast<std::size_t>(bytes[i])) + "\n";
    return text;
  }
  /// The load of the modules from `begin` to before `end`: 10 GB/s to and from other stages.
  double load(std::size_t begin, std::size_t end) const {
    double sum = 0;
    for (auto i = begin; i < end; ++i) sum += seconds[i];
    if (begin > 0) sum += bytes[begin - 1] / 1e10;
    if (end < seconds.size()) sum += bytes[end - 1] / 1e10;
    return sum;
  }
  /// The least largest load of k stages that begin at one of `starts`, which are ascending and begin with 0:
  /// all cuts, one by one.
  double least(std::vector<std::size_t> const& starts, std::size_t k) const {
    std::vector<char> chosen(starts.size() - 1);
    std::fill(chosen.end() - static_cast<std::ptrdiff_t>(k - 1), chosen.end(), char{1});
    double best = std::numeric_limits<double>::infinity();
    do {
      double most = 0;
      std::size_t begin = 0;
      for (std::size_t i = 0; i < chosen.size(); ++i)
        if (chosen[i] != 0) most = std::max(most, load(begin, starts[i + 1])), begin = starts[i + 1];
      best = std::min(best, std::max(most, load(begin, seconds.size())));
    } while (std::next_permutation(chosen.begin(), chosen.end()));
    return best;
  }
};

layer_list random_list(cleave::splitmix& rng) {
  layer_list l;
  for (auto n = 5 + rng.below(7); n > 0; --n) {
    l.seconds.push_back(static_cast<double>(rng.below(1000)) / 1e4);
    l.bytes.push_back(static_cast<double>(rng.below(4) * 100'000'000));
  }
  l.seconds[1] += 0.1;  // so that the layers have a quarter of the cost
  return l;
}

/// The modules at which a stage of a framework may begin.
std::vector<std::size_t> starts_for(std::string const& framework, layer_list const& l) {
  std::vector<std::size_t> starts{0};
  for (std::size_t i = 1; i < l.seconds.size(); ++i) {
    bool const free = framework == "torchtitan" || framework == "deepspeed";
    bool const starts_layers = i > 1 || framework == "megatron";
    bool const is_norm = i == l.layers() + 1, is_head = i == l.layers() + 2;
    if (free || (starts_layers && !is_head && (!is_norm || framework != "vllm"))) starts.push_back(i);
  }
  return starts;
}

}  // namespace

TEST_CASE("cleave split --for: finds the best plan of random lists of layers, which --by reads back") {
  scratch_folder const scratch;
  auto const file = scratch / "layers.csv";
  cleave::splitmix rng(11);
  for (int round = 0; round < 12; ++round) {
    auto const l = random_list(rng);
    write(file, l.csv());
    for (auto const& framework : frameworks) {
      auto const starts = starts_for(framework, l);
      auto const k = 1 + rng.below(std::min<std::size_t>(starts.size(), 4));
      auto const plan = plan_of({file, "-k", std::to_string(k), "--for", framework});
      CAPTURE(framework);
      CAPTURE(plan.dump());
      CHECK(plan.at("for") == framework);
      CHECK(plan.at("best").is_null());
      CHECK(plan.at("largest_load").get<double>() == doctest::Approx(l.least(starts, k)));
      auto const text = plan.at("text").get<std::string>();
      auto const again = plan_of({file, "--by", framework + "=" + text});
      CHECK(again.at("modules") == plan.at("modules"));
      CHECK(again.at("text") == text);
      CHECK(again.at("largest_load").get<double>() == doctest::Approx(plan.at("largest_load").get<double>()));
      CHECK(again.at("best").at("gain").get<double>() == doctest::Approx(0));
    }
  }
}

TEST_CASE("cleave split --for: writes one cut in the words of each framework") {
  scratch_folder const scratch;
  auto const file = scratch / "layers.csv";
  write(file, layer_list{{1, 2, 2, 2, 2, 1, 1}, std::vector<double>(7)}.csv());
  auto const text = [&](std::string const& framework) {
    return plan_of({file, "--by", "deepspeed=[0, 3, 7]", "--for", framework}).at("text").get<std::string>();
  };
  CHECK(text("megatron") == "Et*2|t*2L");
  CHECK(text("vllm") == "2,2");
  CHECK(text("llama.cpp") == "2,3");
  CHECK(text("deepspeed") == "[0, 3, 7]");
  CHECK(text("torchtitan") ==
        R"([["embed", "layers.0", "layers.1"], ["layers.2", "layers.3", "norm", "head"]])");
  auto const said = run_tool({"split", file, "-k", "2", "--for", "llama.cpp"}).said;
  CHECK(said.find("for llama.cpp: --n-gpu-layers 5 --split-mode layer --tensor-split 2,3\n") !=
        std::string::npos);
}

TEST_CASE("cleave split --by: a user's plan gets its load, a better plan and the gain") {
  scratch_folder const scratch;
  auto const file = scratch / "layers.csv";
  write(file, layer_list{{0, 1, 1, 1, 1, 0, 2}, std::vector<double>(7, 1000)}.csv());
  auto const plan = plan_of({file, "--by", "vllm=2,2"});
  CHECK(plan.at("text") == "2,2");
  CHECK(plan.at("largest_load").get<double>() == doctest::Approx(4));
  CHECK(plan.at("sent_bytes") == 1000);
  CHECK(plan.at("best").at("text") == "3,1");
  CHECK(plan.at("best").at("largest_load").get<double>() == doctest::Approx(3));
  CHECK(plan.at("best").at("gain").get<double>() == doctest::Approx(0.25));
  CHECK(plan_of({file, "--by", "vllm=0,4"}).at("best").at("text") == "3,1");
  CHECK(plan_of({file, "--by", "megatron=E|tt||ttL"}).at("best").at("largest_load").get<double>() ==
        doctest::Approx(2));
  auto said = run_tool({"split", file, "--by", "megatron=Ett|ttL"}).said;
  for (std::size_t at = 0; (at = said.find("\u00a0", at)) != said.npos;) said.replace(at, 2, " ");
  CHECK(said.find("  the plan given: largest load 4 s, 1000 B sent\n"
                  "  the best one:   largest load 3 s, 1000 B sent, 25.0 % less load\n"
                  "  for Megatron-LM: --pipeline-model-parallel-layout 'Et*3|tL'\n") != said.npos);
}

TEST_CASE("cleave split --for: finds the layers of models by the names of nodes, or of their weights") {
  auto const modules = [](std::string const& model) {
    std::string names;
    auto const plan = plan_of({model_file(model), "-k", "2", "--for", "torchtitan"});
    for (auto const& m : plan.at("modules")) names += m.at("name").get<std::string>() + " ";
    return names;
  };
  CHECK(modules("gpt2") ==
        "model.transformer.wte model.transformer.h.0 model.transformer.h.1 model.transformer.h.2 "
        "model.transformer.h.3 model.transformer.ln_f model.lm_head ");
  CHECK(modules("bert4_dynamo") ==
        "model.embeddings model.encoder.layer.0 model.encoder.layer.1 model.encoder.layer.2 ");
  auto const encoder =
      plan_of({model_file("t5"), "-k", "2", "--for", "vllm", "--layers", "model.encoder.block"});
  CHECK(encoder.at("modules").back().at("name") == "model.lm_head");
  CHECK(run_tool({"split", model_file("t5"), "-k", "3", "--for", "deepspeed"})
            .said.find("DeepSpeed sends back the gradient of the first argument of a stage alone") !=
        std::string::npos);
}

TEST_CASE("cleave split --for: finds the layers of a graph in JSON by paths, called modules or attributes") {
  scratch_folder const scratch;
  auto const file = scratch / "net.json";
  for (int const how : {0, 1, 2}) {
    std::string nodes = R"({"name": "x", "op": "placeholder"},)", before = "x";
    for (int i = 0; i < 4; ++i) {
      auto const number = std::to_string(i), name = "n" + number;
      if (how == 2)
        nodes +=
            R"({"name": "w)" + number + R"(", "op": "get_attr", "target": "net.h.)" + number + R"(.w"},)";
      nodes += R"({"name": ")" + name + R"(", "op": ")" + (how == 1 ? "call_module" : "call_function") +
               R"(", "target": ")" + (how == 1 ? "net.h." + number : "f") + R"(", "operands": [")" + before +
               (how == 2 ? R"(", "w)" + number : "") + R"("], "cost": 1)" +
               (how == 0 ? R"(, "meta": {"path": "net.h.)" + number + "\"}" : "") + "},";
      before = name;
    }
    nodes += R"({"name": "y", "op": "output", "operands": [")" + before + "\"]}";
    std::string attributes;
    for (int i = 0; i < 4; ++i)
      attributes += (i > 0 ? ", \"net.h." : "\"net.h.") + std::to_string(i) +
                    (how == 2 ? R"(.w": {"kind": "parameter"})" : R"(": {"kind": "module"})");
    write(file, R"({"format": "cleave graph 1", "attributes": {)" + (how == 0 ? "" : attributes) +
                    R"(}, "nodes": [)" + nodes + "]}");
    CAPTURE(how);
    CHECK(plan_of({file, "-k", "2", "--for", "torchtitan"}).at("text") ==
          R"([["net.h.0", "net.h.1"], ["net.h.2", "net.h.3"]])");
  }
}

TEST_CASE("cleave split --for ort-genai: writes the pipeline of any cut, which --by reads back") {
  scratch_folder const scratch;
  auto const model = model_file("gpt2");
  for (words const& how : {words{"-k", "3"}, {"--by", "capability=Gemm"}}) {
    auto call = how;
    call.insert(call.begin(), model);
    call.insert(call.end(), {"--for", "ort-genai"});
    auto const text = plan_of(call).at("text").get<std::string>();
    auto const stages = json::parse(text);
    write(scratch / "genai_config.json", json{{"model", {{"decoder", {{"pipeline", stages}}}}}}.dump());
    auto const by = std::string("ort-genai=") + (scratch / "genai_config.json");
    auto const again = plan_of({model, "--by", by, "--for", "ort-genai"});
    CHECK(json::parse(again.at("text").get<std::string>()) == stages);
  }
  write(scratch / "p.json", R"([{"a": {"filename": "a", "inputs": [], "outputs": ["outputt"]}}])");
  auto const by = std::string("ort-genai=") + (scratch / "p.json");
  CHECK(refusal({"split", model, "--by", by}, 3).find("p.json: stage 'a' has the output 'outputt'") !=
        std::string::npos);
  CHECK(refusal({"split", model, "--by", by}, 3).find("nearest: 'output'") != std::string::npos);
  CHECK(refusal({"split", model, "--by", by, "--map", scratch / "p.json"}, 3).find("p.json") !=
        std::string::npos);
}

TEST_CASE("cleave split: a plan that does not fit is refused with its place and what to do") {
  scratch_folder const scratch;
  auto const file = scratch / "layers.csv";
  write(file, layer_list{{1, 2, 2, 2, 2, 1, 1}, std::vector<double>(7)}.csv());
  for (auto const& [by, said] :
       {std::pair<std::string, std::string>{"vllm=2,1", "has 3 layers, the model has 4 in"},
        {"vllm=2,x", "item #1 is not a number of layers"},
        {"vllm=5", "has 5 layers"},
        {"llama.cpp=1,-1", "item #1 is not a share"},
        {"megatron=Ett|tL", "has 3 layers"},
        {"megatron=tt|ttL", "exactly one embedding"},
        {"megatron=Ett|ttmL", "has layers m"},
        {"megatron=Ett|tt!L", "character #6 is unknown"},
        {"deepspeed=[0, 3, 6]", "end at 6, the model has 7 modules: 'embed'"},
        {"deepspeed=[1, 7]", "bound #0 is not 0"},
        {"torchtitan=[['embed'], ['layer.0']]", "no module 'layer.0'"},
        {"torchtitan=[['embed'], ['layers.0']]", "'layers.1' is in no stage"},
        {"torchtitan=[['embed'", "that nothing closes"},
        {"torchtitan=[['layers.0'],['embed','layers.1','layers.2','layers.3','norm','head']]",
         "stage 0 has 'layers.0', which runs after 'embed' of stage 1"}}) {
    auto const error = refusal({"split", file, "--by", by}, 3);
    CHECK_MESSAGE(error.find(said) != std::string::npos, by, ": ", error);
    CHECK(error.find("--by " + by.substr(0, by.find('='))) != std::string::npos);
  }
  CHECK(refusal({"split", file, "--for", "vlm"}, 2).find("vllm") != std::string::npos);
  CHECK(refusal({"split", file, "--layers", "layers"}, 2).find("give --for") != std::string::npos);
  CHECK(refusal({"split", file, "--for", "vllm", "--layers", "layer"}, 3).find("nearest: 'layers'") !=
        std::string::npos);
  CHECK(refusal({"split", file, "--for", "ort-genai"}, 2).find("is for ONNX models") != std::string::npos);
  CHECK(refusal({"split", file, "-k", "5", "--for", "vllm"}, 1).find("at most 4 stages") !=
        std::string::npos);
  CHECK(refusal({"split", model_file("googlenet"), "--for", "vllm"}, 3).find("no layers found") !=
        std::string::npos);
  CHECK(refusal({"split", model_file("transformer_400"), "--for", "vllm"}, 3).find("a CSV file") !=
        std::string::npos);
  CHECK(refusal({"split", model_file("gpt2"), "--by", "capability=Gemm", "--for", "vllm"}, 3)
            .find("a plan has whole modules") != std::string::npos);
  write(file, "layers.0,1s\nlayers.1,x\n");
  CHECK(refusal({"split", file, "--for", "vllm"}, 3).find("layers.csv: line 2: 'x' is not a time") !=
        std::string::npos);
}

TEST_CASE("cleave split --for: several stages per rank are for frameworks that have them") {
  scratch_folder const scratch;
  auto const file = scratch / "layers.csv", order = scratch / "order.csv";
  write(file, layer_list{std::vector<double>(9, 1), std::vector<double>(9)}.csv());
  auto const schedule = [&](std::string const& name) {
    CHECK(run_tool({"schedule", name, "-p", "2", "-v", "2", "--csv", "--out", order, "--overwrite"}).exit ==
          0);
  };
  schedule("Interleaved1F1B");
  auto const plan = plan_of({file, "--schedule", order, "--for", "megatron"});
  CHECK(std::ranges::count(plan.at("text").get<std::string>(), '|') == 3);
  CHECK(refusal({"split", file, "--schedule", order, "--for", "vllm"}, 2)
            .find("vLLM runs one stage per rank, the schedule has 4 stages on 2 ranks") != std::string::npos);
  schedule("ZBVZeroBubble");
  CHECK(plan_of({file, "--schedule", order, "--for", "torchtitan"}).at("modules").size() == 9);
  CHECK(refusal({"split", file, "--schedule", order, "--for", "megatron"}, 2).find("round-robin") !=
        std::string::npos);
}

TEST_CASE("cleave split --hosts: names the host of each stage, and the ranks that share a tied weight") {
  scratch_folder const scratch;
  auto const hosts = scratch / "hosts.txt";
  write(hosts, "node1 slots=2\nnode2:4000 slots=2\n");
  auto const model = model_file("gpt2");
  auto const said = run_tool({"split", model, "-k", "2", "--hosts", hosts}).said;
  CHECK(
      said.find("  stage 0 on node1, ranks 0 to 1\n  stage 1 on node2:4000, ranks 2 to 3\n"
                "  gradients of 'model.transformer.wte.weight' are summed over the ranks {0, 2}, {1, 3}\n") !=
      std::string::npos);
  auto const all = json::parse(run_tool({"split", model, "-k", "2", "--hosts", hosts, "--json"}).said);
  CHECK(all.at("hosts") == json::parse(R"(["node1", "node1", "node2:4000", "node2:4000"])"));
  CHECK(all.at("ties").at(0).at("groups") == json::parse("[[0, 2], [1, 3]]"));
  auto const file = scratch / "layers.csv";
  write(file, layer_list{{1, 2, 2, 2, 2, 1, 1}, std::vector<double>(7)}.csv());
  CHECK(run_tool({"split", file, "-k", "4", "--hosts", hosts}).said.find("stage 3 on node2:4000, rank 3\n") !=
        std::string::npos);
  CHECK(refusal({"split", file, "-k", "3", "--hosts", hosts}, 3)
            .find("hosts.txt: the hosts have 4 slots, which is not a multiple of the 3 ranks") !=
        std::string::npos);
  write(hosts, "node1 slots=x\n");
  CHECK(
      refusal({"split", file, "--hosts", hosts}, 3).find("hosts.txt: line 1, token 2: 'x' is not a number") !=
      std::string::npos);
}

TEST_CASE("cleave split --for: layers that do not run in their order are refused") {
  scratch_folder const scratch;
  auto const file = scratch / "net.json";
  auto const node = [](std::string const& name, std::string const& from, std::string const& path) {
    return R"({"name": ")" + name + R"(", "operands": [")" + from + R"("], "cost": 1, "meta": {"path": ")" +
           path + "\"}},\n";
  };
  write(file, R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},)" +
                  node("a", "x", "h.0") + node("b", "a", "h.1") + node("c", "b", "h.0") +
                  R"({"name": "y", "op": "output", "operands": ["c"]}]})");
  CHECK(refusal({"split", file, "-k", "2", "--for", "vllm"}, 3)
            .find("node c (#2) of layer 0 of 'h' reads a result of layer 1, b (#1)") != std::string::npos);
}
