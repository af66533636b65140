// SPDX-License-Identifier: MIT
// Cuts the body of a loop in LLVM IR. Each stage becomes a function, and a copy of the loop calls these
// functions. LLVM's verifier checks them, and its JIT runs the function and the copy; both must return the
// same, and leave the same in memory.
#include <llvm/ADT/SetVector.h>
#include <llvm/ExecutionEngine/MCJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <cleave/cut.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// [adapter]
struct block_graph {  // the instructions of a basic block between its phis and its terminator
  using node = llvm::Instruction const*;
  using value = llvm::Value const*;

  explicit block_graph(llvm::BasicBlock const& b) : block(b) {
    list = cleave::collected(block, [&](auto const& i) { return is_made(&i) ? &i : nullptr; });
    for (node i : list)
      for (value v : operands(i))
        if (!is_made(v)) from_outside.insert(v);
    order = cleave::order_effects(
        list, [](node i) { return i->mayReadFromMemory(); },
        [](node i) { return i->mayWriteToMemory() || i->mayHaveSideEffects(); });
  }
  bool is_made(value v) const {
    auto const* const i = llvm::dyn_cast<llvm::Instruction>(v);
    return i && i->getParent() == &block && !llvm::isa<llvm::PHINode>(i) && !i->isTerminator();
  }
  static bool is_local(value v) { return llvm::isa<llvm::Instruction, llvm::Argument>(v); }

  auto const& nodes() const { return list; }
  std::vector<value> operands(node i) const {  // constants and globals are everywhere
    return cleave::collected(i->operand_values(), [](value v) { return is_local(v) ? v : nullptr; });
  }
  std::vector<value> results(node i) const { return std::vector<value>(i->getType()->isVoidTy() ? 0 : 1, i); }
  auto inputs() const { return from_outside.getArrayRef(); }
  std::vector<value> outputs() const {  // what the terminator, a phi or another block reads
    auto const inside = [&](value user) { return is_made(user); };
    return cleave::collected(list,
                             [&](node i) -> value { return llvm::all_of(i->users(), inside) ? nullptr : i; });
  }
  auto after(node i) const { return order[i]; }
  bool portable(value v) const { return !llvm::isa<llvm::AllocaInst>(v); }  // the memory ends with its stage
  double weight(node) const { return 1; }
  std::size_t bytes(value v) const {
    return block.getModule()->getDataLayout().getTypeStoreSize(v->getType());
  }
  std::string name(node i) const { return i->getOpcodeName(); }

  llvm::BasicBlock const& block;
  std::vector<node> list;
  llvm::SetVector<value> from_outside;
  cleave::effect_order<node> order;
};
// [adapter]
static_assert(cleave::effectful_graph<block_graph> && cleave::function_graph<block_graph> &&
              cleave::bounded_graph<block_graph> && cleave::weighted_graph<block_graph>);

// [builder]
template <class Values>
std::vector<llvm::Type*> types_of(Values const& values) {
  std::vector<llvm::Type*> types;
  for (auto const* v : values) types.push_back(v->getType());
  return types;
}

struct function_builder {  // a function that takes the inputs of a stage, and returns its outputs in a struct
  template <class Stage>
  function_builder(llvm::Module& m, std::string const& name, Stage const& stage)
      : at(m.getContext()),
        returned(llvm::StructType::get(m.getContext(), types_of(stage.outputs))),
        made(llvm::Function::Create(llvm::FunctionType::get(returned, types_of(stage.inputs), false),
                                    llvm::Function::ExternalLinkage, name, m)),
        results(llvm::UndefValue::get(returned)) {
    at.SetInsertPoint(llvm::BasicBlock::Create(m.getContext(), "entry", made));
  }
  llvm::Value* argument(block_graph::value, cleave::source) { return made->getArg(next_argument++); }
  std::vector<llvm::Value*> clone(block_graph::node i, auto lookup) {
    auto* const copy = at.Insert(i->clone());
    for (auto& operand : copy->operands())
      if (block_graph::is_local(operand)) operand = lookup(operand);
    return {copy};
  }
  void result(block_graph::value, llvm::Value* v) {
    results = at.CreateInsertValue(results, v, next_result++);
  }
  llvm::Function* finish() {
    at.CreateRet(results);
    return made;
  }

  llvm::IRBuilder<> at;
  llvm::StructType* returned;
  llvm::Function* made;
  llvm::Value* results;
  unsigned next_argument = 0, next_result = 0;
};
// [builder]

// Returns a copy of the function of `b` in which calls of the stages replace the instructions of `b`.
llvm::Function* outline(cleave::staged_graph<block_graph> const& stages, llvm::BasicBlock& b) {
  llvm::ValueToValueMapTy copies;
  auto* const copy = llvm::CloneFunction(b.getParent(), copies);
  copy->setName(b.getParent()->getName() + ".staged");
  auto& module = *copy->getParent();

  std::map<llvm::Value const*, llvm::Value*> now;  // what stands for a value of `b` in the copy
  for (auto const* v : stages.graph().inputs()) now[v] = copies[v];
  llvm::IRBuilder<> at(llvm::cast<llvm::BasicBlock>(copies[&b])->getTerminator());
  for (auto const id : stages.plan().order) {
    auto const stage = stages[id];
    function_builder made(module, "stage" + std::to_string(index(id)), stage);
    cleave::emit(stages, id, made);
    std::vector<llvm::Value*> arguments;
    for (auto const* v : stage.inputs) arguments.push_back(now.at(v));
    auto* const results = at.CreateCall(made.finish(), arguments);
    for (unsigned i = 0; i < stage.outputs.size(); ++i)
      now[stage.outputs[i]] = at.CreateExtractValue(results, i);
  }
  for (auto const* i : llvm::reverse(stages.graph().nodes())) {
    auto* const replaced = llvm::cast<llvm::Instruction>(copies[i]);
    if (auto const found = now.find(i); found != now.end()) replaced->replaceAllUsesWith(found->second);
    replaced->eraseFromParent();
  }
  return copy;
}

// Adds to `m` a table of eight numbers and a function mix(n, x), which mixes x and the table n times.
llvm::Function* make_mix(llvm::Module& m) {
  auto& context = m.getContext();
  auto* const i64 = llvm::Type::getInt64Ty(context);
  auto* const array = llvm::ArrayType::get(i64, 8);
  auto* const table = new llvm::GlobalVariable(m, array, false, llvm::GlobalValue::ExternalLinkage,
                                               llvm::ConstantAggregateZero::get(array), "table");
  auto* const f = llvm::Function::Create(llvm::FunctionType::get(i64, {i64, i64}, false),
                                         llvm::Function::ExternalLinkage, "mix", m);
  auto* const entry = llvm::BasicBlock::Create(context, "entry", f);
  auto* const loop = llvm::BasicBlock::Create(context, "loop", f);
  auto* const exit = llvm::BasicBlock::Create(context, "exit", f);
  llvm::IRBuilder<> at(entry);
  at.CreateBr(loop);
  at.SetInsertPoint(loop);
  auto* const i = at.CreatePHI(i64, 2);
  auto* const x = at.CreatePHI(i64, 2);
  llvm::Value* mixed = x;
  for (std::uint64_t step = 1; step < 5; ++step) {
    auto const slot = [&](llvm::Value* of) {
      return at.CreateInBoundsGEP(array, table, {at.getInt64(0), at.CreateAnd(of, at.getInt64(7))});
    };
    auto* const read = at.CreateLoad(i64, slot(at.CreateAdd(i, at.getInt64(step))));
    mixed = at.CreateMul(at.CreateXor(mixed, read), at.getInt64(0x9e3779b97f4a7c15));
    mixed = at.CreateXor(mixed, at.CreateLShr(mixed, 29));
    at.CreateStore(mixed, slot(mixed));
  }
  auto* const next = at.CreateAdd(i, at.getInt64(1));
  at.CreateCondBr(at.CreateICmpULT(next, f->getArg(0)), loop, exit);
  i->addIncoming(at.getInt64(0), entry), i->addIncoming(next, loop);
  x->addIncoming(f->getArg(1), entry), x->addIncoming(mixed, loop);
  at.SetInsertPoint(exit);
  at.CreateRet(mixed);
  return f;
}

int main() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::LLVMContext context;
  auto module = std::make_unique<llvm::Module>("example", context);
  llvm::BasicBlock& loop = *std::next(make_mix(*module)->begin());

  // [cut]
  block_graph const g(loop);
  auto const stages = cleave::split(g, cleave::balance(g, 3));
  outline(stages, loop);
  if (llvm::verifyModule(*module, &llvm::errs())) return 1;
  // [cut]
  for (auto const id : stages.plan().order)
    std::cout << "stage " << index(id) << ": " << stages[id].nodes.size() << " instructions, takes "
              << stages[id].inputs.size() << " values, returns " << stages[id].outputs.size() << '\n';

  std::unique_ptr<llvm::ExecutionEngine> const jit(llvm::EngineBuilder(std::move(module)).create());
  auto* const table = reinterpret_cast<std::uint64_t*>(jit->getGlobalValueAddress("table"));
  using outcome = std::pair<std::uint64_t, std::vector<std::uint64_t>>;
  auto const run = [&](char const* name, std::uint64_t n, std::uint64_t x) {
    std::fill(table, table + 8, 7);
    auto* const f =
        reinterpret_cast<std::uint64_t (*)(std::uint64_t, std::uint64_t)>(jit->getFunctionAddress(name));
    auto const returned = f(n, x);
    return outcome(returned, std::vector(table, table + 8));
  };
  for (std::uint64_t x = 0; x < 100; ++x)
    if (run("mix", x + 1, x) != run("mix.staged", x + 1, x)) {
      std::cout << "mix(" << x + 1 << ", " << x << ") and its stages differ\n";
      return 1;
    }
  std::cout << "100 calls of the function and of its stages return the same, and leave the same in memory\n";
}
