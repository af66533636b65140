// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

/// The layouts of each area's files: all keys that a case may have. Keys that a runner reads are described
/// down to the leaves; others are `any`. A case may also have remarks: texts and numbers under other keys.
/// The READMEs of the areas explain the keys.
namespace cleave::conformance {

inline constexpr std::string_view layouts = R"(

error = {type: text, message: text, cause?: {type: text, message: text}, step?: text, ranks_that_raise?: [int],
         ranks_that_wait_for_ever?: [int]};
evaluation = {inputs: [text], result: operand, reference_gives?: operand};

operand = null | bool | number | text | {node: text} | {list: [operand]} | {tuple: [operand]} | {dict: [(text, operand)]}
        | {slice: (operand, operand, operand)} | {dtype: text} | {device: text} | {sym: text} | {const: text} | {u64: text};
op = "placeholder" | "get_attr" | "call_function" | "call_method" | "call_module" | "output";
node = {name: text, op: op, target?: text, args?: [operand], kwargs?: {*: operand}, default?: operand, meta?: {*: any}, from?: text};
nodes = [node];
graph = {nodes: nodes};
attributes = {*: "tensor" | "module"};
pairs = [(text, text)];
submodule = {name: text, nodes: nodes, children: pairs};

symbolic_value = {kind: text, binds?: text, free: [text], expr?: text, shape?: [int | text], items?: [symbolic_value]};

split_module_partition = {id: text, submodule: text, nodes: [text], inputs: [text], outputs: [text], dependencies: [text],
                          dependents: [text], own_attributes?: [text]};
split_module_result = {partitions?: [split_module_partition], order?: [text], submodules?: [submodule], base?: nodes,
                       base_children?: [text], qualname_map?: pairs, callback_calls?: int, callback_sequence?: [text], nodes?: nodes};
split_module_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, eval?: evaluation, eval_note?: text, partition_edges?: pairs,
  input: {graph: graph, attributes: attributes, assign?: {*: any},
          options?: {keep_original_order?: bool, keep_original_node_name?: bool, keep_original_input_name?: bool,
                     partition_affix?: text | null, tuple_return?: bool}},
  expect?: split_module_result,
  better?: {expect?: split_module_result, evaluates_to_original?: bool, succeeds?: bool, order?: [text], order_edges?: pairs,
            wrong_state?: {*: any}, final_grad?: {*: any}, missing_modules?: [text], error?: text, backward_edges?: pairs,
            symbol?: text, base_placeholder_targets?: [text], base_placeholder_defaults?: {*: operand},
            clone_kwargs?: {*: operand}, children_as?: text, as?: text, output?: any, "getitem replaced by"?: operand}};

split_by_tags_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, eval?: evaluation, eval_note?: text,
  input: {graph: graph, attributes: attributes, tag: {*: text}, tags: [text], return_tuple: bool},
  expect?: {submodules: [submodule], main: nodes, main_children: [text], fqn_mapping: pairs},
  better?: {error?: text, main_placeholder_defaults?: {*: operand}, main_placeholder_targets?: [text]}};

group = {id: int, nodes: [text]};
capability_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, eval?: evaluation, eval_note?: text, valid_alone?: [bool],
  input: {graph: graph, attributes: attributes, supported?: [text], groups?: [[text]], always_return_tuple?: bool, nodes?: [text],
          options?: {allows_single_node_partition?: bool, skip_horizontal_fusion?: bool, non_compute_ops?: [text],
                     allowed_single_node_partition_ops?: [text]}},
  expect?: {partitions?: [group], after_bookends?: [group], fused?: {submodules: [submodule], graph: nodes}, valid_alone?: [bool],
            sorted?: [text]},
  better?: {evaluates_to_original?: bool, succeeds?: bool}};

ddp_value = {shape?: [int | text], dtype?: text, tuple?: [ddp_value], sym?: text, other?: any, param?: text};
ddp_node = {name: text, op: op, target: text, args?: [operand], kwargs?: {*: operand}, meta?: ddp_value};
ddp_graph = {
  nodes: [ddp_node], params: {*: {bytes: int, storage_bytes?: int, dtype?: text, shape: [int], requires_grad?: bool, ignored?: bool,
                              kind?: text}},
  modules?: {*: {object?: text, params?: pairs, graph?: bool}}, attrs?: {*: text | null}};
ddp_bucket = {nodes: [text], params: [text], param_ids: [text], size: int, extra_ops: int, size_before_extra: int};
ddp_compile = {submod: text | null, inputs: [ddp_value], fake?: bool, results?: int, unwrap?: bool, reason?: text,
               configs?: {*: any}};
ddp_split = {outer: nodes, submods: [{name: text, inputs?: [text], nodes?: [[text]], outputs?: [text], bare?: bool, partition?: bool}]};
ddp_report = {rows: [(int | null, int | null, text)], extended?: [(int, int, int)], log?: [[text]]};
ddp_result = {
  buckets?: [ddp_bucket], split?: ddp_split | null, compiles?: [ddp_compile] | int, report?: ddp_report,
  final?: {children: [text], calls: [text]}, metadata?: {*: any}, equals_unsplit?: bool, returned?: any, first_cap_used?: int,
  compiled_at_build?: int, compiled_at_first_call?: int, compiled_at_second_call?: int, inputs?: [[ddp_value]], bucket_sizes?: [int],
  first_call_fakified?: [bool], metadata_per_bucket?: int | null, last_bucket?: int | null, equals_unsplit_with_gradients?: bool};
ddp_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, before_error?: ddp_result,
  input: {rule: "current" | "seed", bucket_bytes_cap: int, first_bucket_cap: int | null, graph?: ddp_graph | text, lazy?: bool,
          backend_fails_on_call?: int, configs?: {*: any}, model?: {linears: int, in: int, out: int, bytes_each: [int]}},
  expect?: ddp_result,
  better?: {buckets?: [{*: any}], params?: [[text]], counted?: [text], counted_per_layer?: int, sizes_by_own_bytes?: [int],
            distinct_params?: {*: int}, bucket_of_lin_params?: text, run_order?: [text]}};

tie = {param: text, members: [(text, int)]};
liveness = {arg_names: {*: [text]}, names: {*: text}, liveness: {*: [text]}, warned: bool};
slapo_tree = {is?: text, graph?: nodes, children?: {*: slapo_tree}};
slapo_wire = {stage: int, name: text, receives?: [text], args?: [text], sends?: [text], metadata?: text, error?: error};
slapo_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, before_error?: {*: any},
  input: {modules?: {*: {graph?: nodes, leaf?: text, params?: pairs, children?: [text], result?: text}},
          params?: {*: [int]} | pairs, cuts?: [text], top?: nodes, values?: [any], groups?: any, stages?: int | [text],
          hooks?: [text], pipeline?: int, data?: int, tensor?: int, target?: text, kind?: text, allow_none?: bool},
  expect?: {cut_levels?: [text], top?: nodes,
            stages?: [{name: text, partition_idx: int, params: [text], runs: [text], tree: slapo_tree}],
            intended?: [[text]], as_intended?: bool, dropped?: [text], ties_before?: [tie], ties_after?: [tie], analysis?: liveness,
            wire?: [slapo_wire], wire_with_gradients?: [slapo_wire], whole_program?: text, piped_program?: text,
            piped_with_gradients?: text, arg_names?: {*: [text]}, names?: {*: text}, liveness?: {*: [text]}, warned?: bool,
            whole?: [tie], staged?: [tie], tie_ranks?: [[[int]]], tie_stages?: [[int]], ranks_of_stage?: [[int]],
            per_rank?: [{*: any}], per_stage?: [{*: any}], found?: bool, row?: text, tensors?: int, metadata?: text,
            named?: [(text, any)], back?: any, back_error?: error},
  better?: {stages?: [[text]], piped_program?: text, liveness?: {*: [text]}, whole?: any, staged?: any}};

tensor = {shape: [int], data?: [number], needs_gradient?: bool};
scoped_value = {shape?: [int], dtype?: text, bytes?: int, scope?: [text], tuple?: [scoped_value]};
pipe_node = {name: text, op: op, target: text, args?: [operand], kwargs?: {*: operand}, meta?: scoped_value};
pipe_graph = {nodes: [pipe_node]};
pipe_tree = {graph?: pipe_graph, children?: {*: pipe_tree}, is?: text};
pipe_state = {fqn: text, kind: "parameter" | "buffer", storage: int, shape: [int], dtype: text, bytes: int, persistent?: bool,
              requires_grad?: bool};
weight_group = {params: [int | text], intermediates: [int], stashed_elements?: int};
pipe_stage = {name?: text, part?: int, position?: int, call_args?: [operand], nodes?: [text], inputs?: [text], state_reads?: [text],
              inputs_before_sinking?: [text], outputs?: [text], output_kind?: text, parameters?: [text], buffers?: [(text, bool)],
              state_dict?: [text], state_nobody_reads?: [text], modules?: [text], tree?: pipe_tree, graph?: pipe_graph,
              children?: {*: pipe_tree}};
pipe_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, order_dependent?: bool, uncut?: {*: any},
  input: {state?: [pipe_state], modules?: [text], graph?: pipe_graph, split_spec?: [(text, text)],
          graph_after_policy?: pipe_graph, graph_after_dedup?: pipe_graph, constants?: {*: {shape: [int], dtype: text, bytes: int}},
          output?: operand, spec?: any, model?: any, x?: any, targets?: any, loss?: text, left?: any, right?: any, w?: any,
          program?: text | [text], stage_output?: text, output_grads?: text, input_values?: text, outputs_with_grads_idxs?: [int] | null,
          w_gradient_before?: any, x_gradient_before?: any, rows?: [[int]], columns?: [text], args?: any, kwargs?: any,
          chunks?: any, args_spec?: any, kwargs_spec?: any, masked?: bool, parameters?: {*: tensor} | [text], shared?: [text],
          target?: any, learning_rate?: number, steps?: int, schedule?: text, ranks?: int, stages?: int | [pipe_stage],
          stage_of_rank?: [[int]], microbatches?: int | [any], divide_gradients_by_microbatches?: bool, sum_shared_gradients?: bool,
          device?: text, calls?: [text], positional?: [text], named?: pairs, root?: pipe_graph, input_needs_gradient?: bool,
          values?: {*: [number]}, multi_use?: any, nodes?: int, next?: [[int | null]], outputs?: [int], inputs?: [int],
          params?: [int] | {*: tensor}},
  expect?: any,
  better?: any};
pipe_result = {
  num_stages?: int, has_loss_and_backward?: bool, loss_spec?: any, root?: pipe_graph, stages?: [pipe_stage],
  edges?: [{value: text, from: int | text, to: [int], graph_output: bool, skips_stages: bool}], replicated_params?: [pairs],
  parameters_still_shared?: [[(int, text)]], buffers_still_shared?: [[(int, text)]], stage_idx_meta?: any,
  get_stage_module?: [(int, text | {error: error})], state_not_in_any_stage?: [text], state_names_not_in_original?: [text],
  run?: {leaves_equal_uncut?: bool, pipe_structure?: any, uncut_structure?: any}, loss?: any, generated_spec?: any,
  graph?: pipe_graph, order?: [text], unused_gradients?: [text], input_gradients?: any, w_gradient?: any,
  x_gradient_left_behind?: any, sizes?: [[int]], chunks?: int, args?: [any], kwargs?: [any], tensor?: any, tuple?: any,
  dict?: any, list?: any, output_first_step?: [number], microbatch_losses?: [[number]], combined_losses?: [number],
  gradients_first_step_by_quarter?: {*: [number]}, parameters_after_by_quarter?: {*: [number]},
  largest_gradient_difference_from_uncut?: number, largest_loss_difference_from_uncut?: number, replicas_equal_after?: bool,
  outputs?: [[number]], stage_gradients?: {*: any}, uncut?: {*: any}, consumers?: [[int]], on_a_path_from_an_input?: [int],
  per_param?: [[[int]]] | any, groups?: [weight_group], microbatches?: [any], whole_backward?: any, equals_whole_backward?: bool,
  stage_idx?: [int | null], equals_positional_call?: bool, first_stage_parameters?: [text],
  calls?: [{stage: text, arguments: [{identity: int, leaf: bool, needs_gradient: bool}]}], memo_size?: int,
  gradient_on_callers_input?: any, ranks?: [any]};

lowering = {defer_pp_recv?: bool, max_active_stages?: any, unshard_lookahead?: any, defer_reduce_grad_wait?: bool,
            max_outstanding_sends?: any, backward_requires_autograd?: bool, custom?: [text], finalize?: bool, fsdp?: bool,
            groups?: bool, loss?: bool, scale?: bool};
unit_costs = {F: number, B: number, I: number, W: number};
times = {makespan: number, busy: [number], first: [number], last: [number]};
schedule_action = {stage?: int, type?: text, microbatch?: int | null, parts?: [schedule_action]};
failure = text | {type: text, message: text, grid_follows?: bool} | {steps: int};
schedules_case = {
  name: text, category?: text, note?: text, defect?: text, error?: error, better?: text | {compute_order: [text]},
  derived?: bool | {buffered: text, rendezvous: text, async: text, pair_stream: text, fifo_per_directed_pair: bool},
  input: {schedule?: text, ranks?: int, stages_per_rank?: int | null, microbatches?: int, options?: lowering, rank?: int,
          stage_indices?: [int], granularity?: text, row?: text, rows?: [text], stages?: int, rank_keys?: [int],
          stage_to_rank?: [int], passes?: [text], pass?: text, max_active_stages?: int, unshard_lookahead?: int,
          defer_reduce_grad_wait?: bool, max_outstanding_sends?: int, ops?: [{op: text, label: text, group: text | null, peer: int}],
          sorted?: bool, map?: text | [[int]], text?: text, format?: text, class?: text, rows_as_arrays?: [[text]], parse?: text,
          type?: text, lookup?: text, grid?: [text], error_step?: int | null, cost?: unit_costs, stage_cost?: [unit_costs],
          hop?: number, add_spacing?: bool, with_comms?: bool, defer_pp_recv?: bool},
  expect?: text | [text | int] | {
    order?: [text], program?: [text], stage_to_rank?: [int] | [[int]], rank_to_stages?: any, text?: text, slots?: int,
    assignment?: [[int]], fnv1a64?: text, actions?: [int], validate?: failure, executable?: bool, faults?: [text], lower?: failure,
    simulate?: failure, issued?: [text], works?: any, matchings?: any, split_rounds?: any, events?: [text], steps?: int,
    total?: int, rows?: [text], lengths?: [int], action?: schedule_action | null, prints?: text | null, peak_live?: [int],
    peak_microbatches?: [int], comm0?: times, "comm0.5"?: times, overlap_max_comm0?: times, makespan?: number, busy?: [number],
    last?: [number]}};

)";

}  // namespace cleave::conformance
