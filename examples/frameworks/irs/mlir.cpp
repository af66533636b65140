// SPDX-License-Identifier: MIT
// Cuts a function of MLIR that has a loop, a branch and memory. Each stage becomes a function, and a driver
// calls them. MLIR verifies the module, lowers it to LLVM and runs it; the function and the driver must
// return the same.
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/TargetSelect.h>
#include <mlir/Conversion/Passes.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/MemRef/IR/MemRef.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/ExecutionEngine/ExecutionEngine.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/IRMapping.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>
#include <mlir/Parser/Parser.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>
#include <mlir/Target/LLVMIR/Dialect/All.h>
#include <mlir/Transforms/RegionUtils.h>

#include <cleave/cut.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

// [adapter]
struct op_graph {  // the operations of a function that has one block
  using node = mlir::Operation*;
  using value = void*;  // the pointer in an mlir::Value, which has no std::hash

  explicit op_graph(mlir::func::FuncOp f) : block(&f.front()) {
    list = cleave::collected(block->without_terminator(), [](auto& op) { return &op; });
    auto const has_effects = [](node n) { return !mlir::isMemoryEffectFree(n); };
    order = cleave::order_effects(list, has_effects, has_effects);
  }
  static std::vector<value> handles(mlir::ValueRange values) {
    return cleave::collected(values, [](mlir::Value v) { return v.getAsOpaquePointer(); });
  }
  static mlir::Value of(value v) { return mlir::Value::getFromOpaquePointer(v); }

  auto const& nodes() const { return list; }
  auto operands(node n) const { return handles(n->getOperands()); }
  auto results(node n) const { return handles(n->getResults()); }
  auto inputs() const { return handles(block->getArguments()); }
  auto outputs() const { return handles(block->getTerminator()->getOperands()); }
  std::vector<mlir::Block*> regions(node n) const {
    std::vector<mlir::Block*> blocks;
    for (auto& region : n->getRegions())
      for (auto& b : region) blocks.push_back(&b);
    return blocks;
  }
  std::vector<node> nodes(mlir::Block* b) const {  // with the terminator, which reads what the block yields
    return cleave::collected(*b, [](auto& op) { return &op; });
  }
  auto arguments(mlir::Block* b) const { return handles(b->getArguments()); }
  std::vector<value> yields(mlir::Block*) const { return {}; }
  auto after(node n) const { return order[n]; }
  bool replicable(node n) const { return n->hasTrait<mlir::OpTrait::ConstantLike>(); }
  double weight(node n) const { return n->getNumRegions() > 0 ? 10 : 1; }
  std::size_t bytes(value v) const {
    return of(v).getType().isIntOrFloat() ? of(v).getType().getIntOrFloatBitWidth() / 8 : 8;
  }
  std::string name(node n) const { return n->getName().getStringRef().str(); }

  mlir::Block* block;
  std::vector<node> list;
  cleave::effect_order<node> order;
};
// [adapter]
static_assert(cleave::nested_graph<op_graph> && cleave::effectful_graph<op_graph> &&
              cleave::replicating_graph<op_graph> && cleave::weighted_graph<op_graph> &&
              cleave::sized_graph<op_graph> && cleave::named_graph<op_graph>);

// [builder]
mlir::func::FuncOp make_function(mlir::ModuleOp m, std::string const& name,
                                 std::vector<op_graph::value> const& takes,
                                 std::vector<op_graph::value> const& gives) {
  auto const types = [](std::vector<op_graph::value> const& values) {
    std::vector<mlir::Type> list;
    for (auto* const v : values) list.push_back(op_graph::of(v).getType());
    return list;
  };
  auto const type = mlir::FunctionType::get(m.getContext(), types(takes), types(gives));
  auto f = mlir::func::FuncOp::create(m.getLoc(), name, type);
  f.addEntryBlock();
  m.push_back(f);
  return f;
}

struct op_builder {
  explicit op_builder(mlir::func::FuncOp f) : made(f), at(mlir::OpBuilder::atBlockEnd(&f.front())) {}

  mlir::Value argument(op_graph::value, cleave::source) { return made.getArgument(next_argument++); }
  auto clone(op_graph::node n, auto lookup) {
    mlir::IRMapping names;
    auto const use = [&](mlir::Value v) { names.map(v, lookup(v.getAsOpaquePointer())); };
    for (mlir::Value const v : n->getOperands()) use(v);
    llvm::SetVector<mlir::Value> captures;
    mlir::getUsedValuesDefinedAbove(n->getRegions(), captures);
    for (mlir::Value const v : captures) use(v);
    auto const copies = at.clone(*n, names)->getResults();
    return std::vector<mlir::Value>(copies.begin(), copies.end());
  }
  void result(op_graph::value, mlir::Value v) { results.push_back(v); }
  void finish() { at.create<mlir::func::ReturnOp>(made.getLoc(), results); }

  mlir::func::FuncOp made;
  mlir::OpBuilder at;
  std::vector<mlir::Value> results;
  unsigned next_argument = 0;
};
// [builder]

// Adds the stages to the module, and a function that calls them.
void outline(cleave::staged_graph<op_graph> const& stages, mlir::ModuleOp m, std::string const& name) {
  auto const& g = stages.graph();
  op_builder driver(make_function(m, name, g.inputs(), g.outputs()));
  std::map<op_graph::value, mlir::Value> now;
  for (auto* const v : g.inputs()) now[v] = driver.argument(v, cleave::source::input);
  for (auto const id : stages.plan().order) {
    auto const stage = stages[id];
    op_builder b(make_function(m, "stage" + std::to_string(index(id)), stage.inputs, stage.outputs));
    cleave::emit(stages, id, b);
    b.finish();
    std::vector<mlir::Value> arguments;
    for (auto* const v : stage.inputs) arguments.push_back(now.at(v));
    auto call = driver.at.create<mlir::func::CallOp>(m.getLoc(), b.made, arguments);
    for (unsigned i = 0; i < stage.outputs.size(); ++i) now[stage.outputs[i]] = call.getResult(i);
  }
  for (auto* const v : g.outputs()) driver.result(v, now.at(v));
  driver.finish();
}

constexpr char const* lowering =
    LLVM_VERSION_MAJOR < 17
        ? "convert-scf-to-cf,convert-memref-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts"
        : "convert-scf-to-cf,convert-cf-to-llvm,convert-arith-to-llvm,finalize-memref-to-llvm,convert-func-"
          "to-llvm,"
          "reconcile-unrealized-casts";

constexpr char const* text = R"(
func.func @model(%x: f32, %y: f32) -> f32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %size = arith.constant 8 : index
  %half = arith.constant 0.5 : f32
  %memory = memref.alloc() : memref<8xf32>
  %sum = arith.addf %x, %y : f32
  %last = scf.for %i = %zero to %size step %one iter_args(%a = %sum) -> (f32) {
    memref.store %a, %memory[%i] : memref<8xf32>
    %b = arith.mulf %a, %half : f32
    %c = arith.subf %b, %x : f32
    scf.yield %c : f32
  }
  %above = arith.cmpf ogt, %last, %y : f32
  %chosen = scf.if %above -> (f32) {
    %d = arith.mulf %last, %sum : f32
    scf.yield %d : f32
  } else {
    scf.yield %y : f32
  }
  %total = scf.for %i = %zero to %size step %one iter_args(%a = %chosen) -> (f32) {
    %e = memref.load %memory[%i] : memref<8xf32>
    %f = arith.addf %a, %e : f32
    scf.yield %f : f32
  }
  memref.dealloc %memory : memref<8xf32>
  return %total : f32
})";

int main() {
  mlir::DialectRegistry registry;
  mlir::registerAllToLLVMIRTranslations(registry);
  mlir::MLIRContext context(registry);
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::memref::MemRefDialect,
                      mlir::scf::SCFDialect, mlir::LLVM::LLVMDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);

  // [cut]
  op_graph const g(module->lookupSymbol<mlir::func::FuncOp>("model"));
  auto const stages = cleave::split(g, cleave::balance(g, 3));
  outline(stages, *module, "staged");
  if (failed(mlir::verify(*module))) return 1;
  // [cut]
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << index(id) << ':';
    for (auto* const n : stages[id].nodes) std::cout << ' ' << g.name(n);
    std::cout << '\n';
  }

  for (char const* name : {"model", "staged"})
    module->lookupSymbol(name)->setAttr("llvm.emit_c_interface", mlir::UnitAttr::get(&context));
  mlir::registerConversionPasses();
  mlir::PassManager passes(&context);
  if (failed(mlir::parsePassPipeline(lowering, passes)) || failed(passes.run(*module))) return 1;
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto const jit = llvm::cantFail(mlir::ExecutionEngine::create(*module));
  auto const run = [&](char const* name, float x, float y) {
    float returned = 0;
    llvm::cantFail(jit->invoke(name, x, y, mlir::ExecutionEngine::result(returned)));
    return returned;
  };
  for (int i = -50; i < 50; ++i) {
    auto const x = static_cast<float>(i) / 7, y = static_cast<float>(i * i % 11);
    if (run("model", x, y) != run("staged", x, y)) {
      std::cout << "model(" << x << ", " << y << ") and its stages differ\n";
      return 1;
    }
  }
  std::cout << "100 calls of the function and of its stages return the same\n";
}
