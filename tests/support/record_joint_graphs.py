#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records joint graphs of forward and backward pass, and what PyTorch's partitioner saves and computes again in them.

    python tests/support/record_joint_graphs.py FOLDER [NAME...]

Needs torch, transformers and torchvision (of which only the architectures are used: nothing is downloaded, and no
tensor has values). Writes FOLDER/NAME.json for each model, or only for those named. The files in
tests/backward/joint_graphs were made with torch 2.15.0, transformers 5.24.0 and torchvision 0.29.2; but for "seconds",
a second run writes the same.

A model is traced by torch's AOTAutograd on the CPU, with Inductor's decompositions
(`torch._inductor.decomposition.select_decomp_table()`); random operators are replaced by seeded ones, as Inductor does
(`replace_random_passes`); no other pass of Inductor is run. Parameters and buffers come first, and the partitioner is
told that they are static, as `torch.compile` tells it. What is recorded is the graph that the partitioner cuts, that
is, after its removal of dead and of equal nodes. Inputs with real numbers require gradients, as in the middle or at
the end of a pipeline (but for cosines and sines).

"nodes", in an order in which each is computed after what it reads:

    name, op   of the node, and of its operator ("placeholder" for an input)
    reads      the nodes that it reads, each once
    bytes      of its tensor, by torch's `_size_of`: a view counts like a copy, an expanded tensor in full
    whole      it has several results: it cannot be saved (its bytes are 0), but its getitems can
    cost       torch's `estimate_runtime`: floating-point operations of products, convolutions and fused attention, 1
               for any other operator; 0 for inputs and getitems
    moved      bytes read and written; 0 for inputs, getitems and views
    input, tangent   an input of the forward pass, of the backward pass
    parameter  an input that is a parameter or a buffer
    random     it is another tensor each time that it is computed
    fixed      torch never computes it again, in its default settings (inputs are always fixed; it is not written for
               them)

"results" are the nodes that the forward pass returns (first the new values of buffers). "gradients" has, for each
input in their order, the node with its gradient, or -1.

"peer" is what `min_cut_rematerialization_partition` made of the graph in several settings:

    settings         of torch._functorch.config
    saved            what its forward module returns for the backward pass
    bytes            of these; parameter_bytes: of those which are parameters or buffers; input_bytes: of those which
                     are other inputs
    again            nodes (without inputs) that its forward module and its backward module both compute
    wrong            the random ones of these: the gradients are those of other random numbers (PyTorch issue 190758)
    cost, moved      of these
    fixed            as above, in these settings; without the nodes that the knapsack of a memory budget has released
    seconds          of the processor, for the call alone

Each partition is checked by definition: both modules compute nodes of the joint graph from what these nodes read
there, the forward module from the inputs alone, the backward module from what is saved and the tangents; and they
return the results and the gradients.
"""
import copy
import json
import logging
import operator
import sys
import time
import warnings
from pathlib import Path

import torch
import torch._functorch.config as config
import torch._functorch.partitioners as partitioners
import torchvision
import transformers
import transformers.initialization
import transformers.masking_utils
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

# ---------------------------------------------------------------------------------------------------------- models

BATCH, ROWS, WIDE, HEADS = 8, 128, 256, 4


def hidden(batch=BATCH, rows=ROWS, wide=WIDE):
    return torch.randn(batch, rows, wide, requires_grad=True)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, 10)

    def forward(self, x, labels):
        return (F.cross_entropy(self.down(torch.relu(self.up(x))), labels),)


class ResidualMlp(nn.Module):
    def __init__(self, blocks=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, 2 * WIDE), nn.GELU(), nn.Linear(2 * WIDE, WIDE))
            for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return (x,)


class Attention(nn.Module):
    def __init__(self, fused, dropout=0.0):
        super().__init__()
        self.fused, self.dropout = fused, dropout
        self.qkv, self.out = nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x):
        batch, rows, wide = x.shape
        q, k, v = self.qkv(x).view(batch, rows, 3, HEADS, wide // HEADS).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            shares = torch.softmax(q @ k.transpose(-2, -1) * (wide // HEADS) ** -0.5, -1)
            mixed = F.dropout(shares, self.dropout) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, rows, wide))


class Encoder(nn.Module):
    """Transformer blocks, with the normalization before attention."""

    def __init__(self, fused, blocks=2, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.blocks = nn.ModuleList(
            nn.ModuleList([
                nn.LayerNorm(WIDE), Attention(fused, dropout),
                nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, 4 * WIDE), nn.GELU(), nn.Linear(4 * WIDE, WIDE)),
            ]) for _ in range(blocks))

    def forward(self, x):
        for norm, attention, mlp in self.blocks:
            x = x + F.dropout(attention(norm(x)), self.dropout)
            x = x + F.dropout(mlp(x), self.dropout)
        return (x,)


class LastStage(nn.Module):
    """A language model from the embedded tokens to the loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        logits = self.model(inputs_embeds=x, use_cache=False).logits
        return (F.cross_entropy(logits.flatten(0, 1), labels.flatten()),)


class MiddleStage(nn.Module):
    """A model from embedded tokens to the last hidden state."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return (self.model(inputs_embeds=x).last_hidden_state,)


class LlamaStage(nn.Module):
    """Layers from the middle of a Llama, with cosines and sines as inputs. Also returns what enters the last layer."""

    def __init__(self, layers=3):
        super().__init__()
        made = llama_config(layers)
        self.layers = nn.ModuleList(
            transformers.models.llama.modeling_llama.LlamaDecoderLayer(made, i) for i in range(layers))

    def forward(self, x, cos, sin):
        for layer in self.layers:
            last = x
            x = layer(x, position_embeddings=(cos, sin), position_ids=None, attention_mask=None)
        return x, last


class Classifier(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return (F.cross_entropy(self.model(x), labels),)


class VitStage(nn.Module):
    def __init__(self):
        super().__init__()
        made = transformers.ViTConfig(hidden_size=WIDE, num_hidden_layers=4, num_attention_heads=HEADS,
                                      intermediate_size=4 * WIDE, image_size=64, patch_size=8, hidden_dropout_prob=0.0,
                                      attention_probs_dropout_prob=0.0)
        self.model = transformers.ViTModel(made, add_pooling_layer=False)

    def forward(self, x):
        return (self.model(x).last_hidden_state,)


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()

        def double(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())

        self.down = nn.ModuleList(double(a, b) for a, b in zip((8,) + widths, widths))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for skip, up, merge in list(zip(skips, self.ups, self.merge))[::-1]:
            x = merge(torch.cat([skip, up(x)], 1))
        return (self.head(x),)


class Lstm(nn.Module):
    def __init__(self, steps=10):
        super().__init__()
        self.steps, self.gates, self.head = steps, nn.Linear(2 * WIDE, 4 * WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x, h, c):
        results = []
        for t in range(self.steps):
            i, f, g, o = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            results.append(self.head(h))
        return torch.stack(results, 1), h, c


class Vae(nn.Module):
    def __init__(self, image=784, code=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(image, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU())
        self.mean, self.spread = nn.Linear(WIDE, code), nn.Linear(WIDE, code)
        self.decoder = nn.Sequential(nn.Linear(code, WIDE), nn.ReLU(), nn.Linear(WIDE, image))

    def forward(self, x):
        y = self.encoder(x)
        mean, spread = self.mean(y), self.spread(y)
        z = mean + torch.exp(0.5 * spread) * torch.randn_like(spread)
        made = F.binary_cross_entropy_with_logits(self.decoder(z), torch.sigmoid(x))
        return (made - 0.5 * torch.mean(1 + spread - mean.square() - spread.exp()),)


class MixtureOfExperts(nn.Module):
    """Each token goes to two of the experts, of which each takes at most `room` tokens."""

    def __init__(self, experts=4, room=320):
        super().__init__()
        self.experts, self.room = experts, room
        self.norm, self.router = nn.LayerNorm(WIDE), nn.Linear(WIDE, experts)
        self.up = nn.Parameter(torch.randn(experts, WIDE, 2 * WIDE))
        self.down = nn.Parameter(torch.randn(experts, 2 * WIDE, WIDE))

    def forward(self, x):
        tokens = self.norm(x).flatten(0, 1)
        shares = torch.softmax(self.router(tokens), -1)
        best, chosen = shares.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        taken = F.one_hot(chosen, self.experts)  # token, choice, expert
        place = taken.flatten(0, 1).cumsum(0).view_as(taken) * taken - 1
        fits = (place >= 0) & (place < self.room)
        weight = (best.unsqueeze(-1) * fits).sum(1)  # token, expert
        slot = torch.where(fits, place, 0).sum(1)
        sent = F.one_hot(slot, self.room).to(tokens.dtype) * fits.any(1).unsqueeze(-1)  # token, expert, slot
        inside = torch.einsum("tes,tw->esw", sent, tokens)
        inside = torch.bmm(F.silu(torch.bmm(inside, self.up)), self.down)
        outside = torch.einsum("tes,esw->tw", sent * weight.unsqueeze(-1), inside)
        balance = (shares.mean(0) * taken.float().sum(1).mean(0)).sum()
        return x + outside.view_as(x), balance


class T5Stage(nn.Module):
    def __init__(self):
        super().__init__()
        made = transformers.T5Config(vocab_size=512, d_model=WIDE, d_kv=WIDE // HEADS, d_ff=4 * WIDE, num_layers=2,
                                     num_decoder_layers=2, num_heads=HEADS, dropout_rate=0.0, use_cache=False)
        self.model = transformers.T5ForConditionalGeneration(made)

    def forward(self, x, y, labels):
        logits = self.model(inputs_embeds=x, decoder_inputs_embeds=y, use_cache=False).logits
        return (F.cross_entropy(logits.flatten(0, 1), labels.flatten()),)


class Autocast(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(*inputs)


def gpt2(layers, attention):
    made = transformers.GPT2Config(vocab_size=512, n_embd=WIDE, n_layer=layers, n_head=HEADS, n_positions=ROWS,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation=attention)
    return transformers.GPT2LMHeadModel(made)


def bert():
    made = transformers.BertConfig(vocab_size=512, hidden_size=WIDE, num_hidden_layers=4, num_attention_heads=HEADS,
                                   intermediate_size=4 * WIDE, max_position_embeddings=ROWS, hidden_dropout_prob=0.0,
                                   attention_probs_dropout_prob=0.0, attn_implementation="eager")
    return transformers.BertModel(made, add_pooling_layer=False)


def llama_config(layers):
    return transformers.LlamaConfig(vocab_size=512, hidden_size=WIDE, intermediate_size=704, num_hidden_layers=layers,
                                    num_attention_heads=HEADS, num_key_value_heads=HEADS // 2,
                                    max_position_embeddings=ROWS, attn_implementation="sdpa")


def llama(layers):
    return transformers.LlamaForCausalLM(llama_config(layers))


def labels(*shape, classes=512):
    return torch.randint(classes, shape)


def image(batch, channels, size):
    return torch.randn(batch, channels, size, size, requires_grad=True)


def mobile_net():
    return torchvision.models.MobileNetV2(
        num_classes=10, dropout=0.0,
        inverted_residual_setting=[[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]])


def llama_stage():
    return LlamaStage(), (hidden(), torch.randn(1, ROWS, WIDE // HEADS), torch.randn(1, ROWS, WIDE // HEADS))


def small_transformer(config, model, **more):
    """Returns a language model of transformers, four layers of the usual sizes, that begins at the embedded tokens."""
    made = config(vocab_size=512, hidden_size=WIDE, num_hidden_layers=4, num_attention_heads=HEADS, **more)
    return LastStage(model(made)), (hidden(), labels(BATCH, ROWS))


def mixer():
    """Returns four blocks of an MLP-Mixer: linear layers over the rows, then over the columns."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_rows, self.norm_columns = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
            self.rows = nn.Sequential(nn.Linear(ROWS, 2 * ROWS), nn.GELU(), nn.Linear(2 * ROWS, ROWS))
            self.columns = nn.Sequential(nn.Linear(WIDE, 4 * WIDE), nn.GELU(), nn.Linear(4 * WIDE, WIDE))

        def forward(self, x):
            x = x + self.rows(self.norm_rows(x).transpose(1, 2)).transpose(1, 2)
            return x + self.columns(self.norm_columns(x))

    class Mixer(nn.Sequential):
        def forward(self, x):
            return (super().forward(x),)

    return Mixer(*(Block() for _ in range(4))), (hidden(),)


MODELS = {  # what it is; a function that makes the model and its inputs
    "mlp": ("two linear layers and the loss",
            lambda: (Mlp(), (torch.randn(1024, WIDE, requires_grad=True), labels(1024, classes=10)))),
    "residual_mlp": ("six residual blocks of two linear layers; a middle stage", lambda: (ResidualMlp(), (hidden(),))),
    "encoder_softmax": ("two transformer blocks with softmax; a middle stage", lambda: (Encoder(False), (hidden(),))),
    "encoder_fused": ("two transformer blocks with fused attention; a middle stage",
                      lambda: (Encoder(True), (hidden(),))),
    "dropout": ("two transformer blocks with softmax and dropout; a middle stage",
                lambda: (Encoder(False, dropout=0.1), (hidden(),))),
    "gpt2_4": ("GPT-2, 4 layers, attention as separate operators, from the embedded tokens to the loss",
               lambda: (LastStage(gpt2(4, "eager")), (hidden(), labels(BATCH, ROWS)))),
    "gpt2_12": ("GPT-2, 12 layers, fused attention, from the embedded tokens to the loss",
                lambda: (LastStage(gpt2(12, "sdpa")), (hidden(), labels(BATCH, ROWS)))),
    "bert": ("BERT, 4 layers, attention as separate operators; a middle stage",
             lambda: (MiddleStage(bert()), (hidden(),))),
    "llama": ("Llama, 4 layers, from the embedded tokens to the loss",
              lambda: (LastStage(llama(4)), (hidden(), labels(BATCH, ROWS)))),
    "llama_stage": ("three layers of a Llama with two results; a middle stage", llama_stage),
    "llama_bfloat16": ("Llama, 2 layers, with automatic bfloat16, from the embedded tokens to the loss",
                       lambda: (Autocast(LastStage(llama(2))), (hidden(), labels(BATCH, ROWS)))),
    "vit": ("a vision transformer, 4 layers, from the image to the last hidden state",
            lambda: (VitStage(), (image(BATCH, 3, 64),))),
    "resnet18": ("ResNet-18 and the loss",
                 lambda: (Classifier(torchvision.models.resnet18(num_classes=10)),
                          (image(8, 3, 64), labels(8, classes=10)))),
    "densenet": ("DenseNet, two blocks of three layers, and the loss",
                 lambda: (Classifier(torchvision.models.DenseNet(16, (3, 3), 32, num_classes=10)),
                          (image(8, 3, 64), labels(8, classes=10)))),
    "mobilenet": ("the first blocks of MobileNetV2 and the loss",
                  lambda: (Classifier(mobile_net()), (image(8, 3, 64), labels(8, classes=10)))),
    "unet": ("a U-Net of three levels; a middle stage", lambda: (UNet(), (image(8, 8, 64),))),
    "lstm": ("an LSTM, ten steps one after the other; a middle stage",
             lambda: (Lstm(), (hidden(64, 10), torch.randn(64, WIDE, requires_grad=True),
                               torch.randn(64, WIDE, requires_grad=True)))),
    "vae": ("a variational autoencoder and its loss", lambda: (Vae(), (torch.randn(512, 784, requires_grad=True),))),
    "mixture_of_experts": ("a layer of four experts, two for each token; a middle stage",
                           lambda: (MixtureOfExperts(), (hidden(4),))),
    "t5": ("T5, two layers of encoder and of decoder, from the embedded tokens to the loss",
           lambda: (T5Stage(), (hidden(), hidden(), labels(BATCH, ROWS)))),
    "convnext": ("ConvNeXt, two stages of two blocks, and the loss",
                 lambda: (Classifier(torchvision.models.ConvNeXt(
                     [torchvision.models.convnext.CNBlockConfig(32, 64, 2),
                      torchvision.models.convnext.CNBlockConfig(64, None, 2)], num_classes=10)),
                          (image(8, 3, 64), labels(8, classes=10)))),
    "swin": ("a Swin transformer, two stages of two blocks, and the loss",
             lambda: (Classifier(torchvision.models.SwinTransformer(
                 [4, 4], 32, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10)),
                      (image(8, 3, 64), labels(8, classes=10)))),
    "shufflenet": ("ShuffleNet and the loss",
                   lambda: (Classifier(torchvision.models.shufflenet_v2_x0_5(num_classes=10)),
                            (image(8, 3, 64), labels(8, classes=10)))),
    "mixer": ("four blocks of an MLP-Mixer; a middle stage", mixer),
    "bloom": ("BLOOM, 4 layers, from the embedded tokens to the loss",
              lambda: small_transformer(transformers.BloomConfig, transformers.BloomForCausalLM)),
    "mistral": ("Mistral, 4 layers, from the embedded tokens to the loss",
                lambda: small_transformer(transformers.MistralConfig, transformers.MistralForCausalLM,
                                          num_key_value_heads=HEADS // 4, intermediate_size=704)),
    "gpt_neox": ("GPT-NeoX, 4 layers with parallel residuals, from the embedded tokens to the loss",
                 lambda: small_transformer(transformers.GPTNeoXConfig, transformers.GPTNeoXForCausalLM,
                                           intermediate_size=4 * WIDE, attention_dropout=0.0, hidden_dropout=0.0)),
    # Recorded after the search of cut_joint_graph was last changed.
    "efficientnet": ("EfficientNet and the loss",
                     lambda: (Classifier(torchvision.models.efficientnet_b0(
                         num_classes=10, stochastic_depth_prob=0.0, dropout=0.0)),
                              (image(8, 3, 64), labels(8, classes=10)))),
    "squeezenet": ("SqueezeNet and the loss",
                   lambda: (Classifier(torchvision.models.squeezenet1_1(num_classes=10, dropout=0.0)),
                            (image(8, 3, 64), labels(8, classes=10)))),
    "phi": ("Phi, 4 layers, from the embedded tokens to the loss",
            lambda: small_transformer(transformers.PhiConfig, transformers.PhiForCausalLM, intermediate_size=4 * WIDE,
                                      attention_dropout=0.0, resid_pdrop=0.0, embd_pdrop=0.0)),
    "olmo": ("OLMo, 4 layers whose norms have no weights, from the embedded tokens to the loss",
             lambda: small_transformer(transformers.OlmoConfig, transformers.OlmoForCausalLM, intermediate_size=704)),
}

# --------------------------------------------------------------------------------------------------------- partitions

ALL_BANS = ("used_far_apart", "long_fusible_chains", "materialized_backward", "not_in_allowlist", "reductions")
SETTINGS = [
    {"activation_memory_budget": 1.0},
    {"activation_memory_budget": 1.0, "aggressive_recomputation": True},
    {"activation_memory_budget": 1.0, "aggressive_recomputation": True}
    | {f"ban_recompute_{ban}": False for ban in ALL_BANS},
] + [{"activation_memory_budget": budget, "activation_memory_budget_solver": "dp"}
     for budget in (0.7, 0.5, 0.3, 0.1, 0.0)]


def joint_graph(make):
    """The joint graph of a model as AOTAutograd makes it, and the numbers of its results and of its parameters."""
    found = {}

    def capture(graph, inputs, *, num_fwd_outputs, **_):
        replace_random_passes(graph)
        found.update(graph=copy.deepcopy(graph), results=num_fwd_outputs)
        return partitioners.default_partition(graph, inputs, num_fwd_outputs=num_fwd_outputs)

    with FakeTensorMode() as fake, V.set_fake_mode(fake):
        with transformers.initialization.no_init_weights():
            model, inputs = make()
        model.train()
        aot_module_simplified(model, inputs, fw_compiler=lambda g, _: g, partition_fn=capture,
                              decompositions=select_decomp_table())
    parameters = len(list(model.parameters())) + len(list(model.buffers()))
    primals = [n for n in found["graph"].graph.find_nodes(op="placeholder") if "primals" in n.name]
    assert len(primals) == parameters + len(inputs), "inputs that are neither parameters nor given"
    return found["graph"], found["results"], parameters


def partition(joint, settings, results, parameters):
    """The two modules that the partitioner makes, what it never computes again, and its seconds. Alters the graph."""
    solve, choose = partitioners.solve_min_cut, partitioners.choose_saved_values_set
    solved, fixed = [], []

    def record_solve(*arguments, **options):
        solved.append(solve(*arguments, **options))
        return solved[-1]

    def record_choose(*arguments, **options):
        chosen = choose(*arguments, **options)
        fixed.extend(node.name for saved, banned in solved if saved is chosen for node in banned)
        return chosen

    partitioners.solve_min_cut, partitioners.choose_saved_values_set = record_solve, record_choose
    try:
        with config.patch(**settings):
            start = time.process_time()
            forward, backward = partitioners.min_cut_rematerialization_partition(
                joint, None, num_fwd_outputs=results, static_lifetime_input_indices=list(range(parameters)))
            seconds = time.process_time() - start
    finally:
        partitioners.solve_min_cut, partitioners.choose_saved_values_set = solve, choose
    return forward, backward, fixed, seconds


def outputs(module):
    (node,) = module.graph.find_nodes(op="output")
    return [x.name if isinstance(x, torch.fx.Node) else None for x in node.args[0]]


def computed(module):
    return [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]


def check_computes(module, joint, given):
    """Raises if a module reads more than what is given, or computes anything that is not in the joint graph."""
    known = set()
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        twin = joint[node.name]
        if node.op == "placeholder":
            assert node.name in given, f"{node.name} is neither saved nor a tangent"
        else:
            assert node.target == twin.target, f"{node.name} is another operator"
            assert reads_of(node) == reads_of(twin), f"{node.name} reads other nodes"
            assert known.issuperset(reads_of(node)), f"{node.name} reads what is not there"
        known.add(node.name)
    assert known.issuperset(x for x in outputs(module) if x), "an output is not computed"


def reads_of(node):
    return [read.name for read in node.all_input_nodes]


# --------------------------------------------------------------------------------------------------------------- files


def is_view(node):
    return getattr(node.target, "is_view", False) or node.target == torch.ops.aten._unsafe_view.default


def is_random(node):
    """Whether it is another tensor each time. What is made from a seed that the node reads is not."""
    return partitioners.is_rng_op(node) and not node.all_input_nodes


def has_several_results(node):
    return isinstance(node.meta.get("val"), (tuple, list))


def node_entry(node, index):
    inert = node.op == "placeholder" or node.target is operator.getitem
    several = has_several_results(node)
    size = partitioners._size_of(node)
    reads = node.all_input_nodes
    moved = 0 if inert or is_view(node) else size + sum(partitioners._size_of(read) for read in reads)
    made = {
        "name": node.name,
        "op": "getitem" if node.target is operator.getitem else
              "placeholder" if node.op == "placeholder" else str(node.target),
        "reads": [index[read.name] for read in reads],
        "bytes": 0 if several else size,
        "cost": 0 if inert else int(partitioners.estimate_runtime(node)),
        "moved": moved,
    }
    return made | ({"whole": True} if several else {}) | ({"random": True} if is_random(node) else {})


def record(name, about, make):
    graph, results, parameters = joint_graph(make)
    reference, peers = None, []
    for settings in SETTINGS:
        joint = copy.deepcopy(graph)
        forward, backward, fixed, seconds = partition(joint, settings, results, parameters)
        nodes = [node for node in joint.graph.nodes if node.op != "output"]
        assert {node.op for node in nodes} == {"placeholder", "call_function"}, "a constant in the graph"
        if reference is None:
            reference = joint
            index = {node.name: i for i, node in enumerate(nodes)}
            entries = [node_entry(node, index) for node in nodes]
            twins = {node.name: node for node in nodes}
            primals = [node.name for node in nodes if node.op == "placeholder" and "tangents" not in node.name]
            tangents = [node.name for node in nodes if node.op == "placeholder" and "tangents" in node.name]
            everything = outputs(joint)
            wanted, gradients = everything[:results], everything[results:]
            assert len(gradients) == len(primals), "not one gradient for each input"
            for i, primal in enumerate(primals):
                entries[index[primal]] |= {"input": True} | ({"parameter": True} if i < parameters else {})
            for tangent in tangents:
                entries[index[tangent]]["tangent"] = True
            for banned in fixed:
                if banned not in primals:
                    entries[index[banned]]["fixed"] = True
        assert list(twins) == [node.name for node in nodes], "the graph depends on the settings"

        returned = outputs(forward)
        assert returned[:results] == wanted and outputs(backward) == gradients, "other results or gradients"
        saved = returned[results:]
        placeholders = [node.name for node in backward.graph.nodes if node.op == "placeholder"]
        assert set(placeholders) <= set(saved) | set(tangents), "the backward pass reads more than what is saved"
        check_computes(forward, twins, set(primals))
        check_computes(backward, twins, set(saved) | set(tangents))
        assert not any(entries[index[x]].get("whole") for x in saved), "several results saved as one"

        both = {node.name for node in computed(forward)} & {node.name for node in computed(backward)}
        again = sorted(index[x] for x in both)
        wrong = [i for i in again if "random" in entries[i]]
        places = sorted(index[x] for x in saved)

        def total(what, flag=None, but=None):
            return sum(entries[i][what] for i in places
                       if (flag is None or entries[i].get(flag)) and not (but and entries[i].get(but)))

        peers.append({
            "settings": settings, "saved": places, "bytes": total("bytes"),
            "parameter_bytes": total("bytes", "parameter"), "input_bytes": total("bytes", "input", "parameter"),
            "again": again} | ({"wrong": wrong} if wrong else {}) | {"cost": sum(entries[i]["cost"] for i in again),
            "moved": sum(entries[i]["moved"] for i in again),
            "fixed": sorted(index[x] for x in fixed if x not in primals), "seconds": round(seconds, 4)})
    head = {"format": "cleave joint graph 1", "name": name, "torch": torch.__version__.partition("+")[0],
            "about": about}
    tail = {"results": [index[x] for x in wanted if x],
            "gradients": [-1 if x is None else index[x] for x in gradients]}
    return head, entries, tail, peers


def text(head, entries, tail, peers):
    def compact(value):
        return json.dumps(value, separators=(",", ":"))

    lines = [f"{compact(key)}:{compact(value)}," for key, value in head.items()]
    lines += ['"nodes":[', ",\n".join(map(compact, entries)), "],"]
    lines += [f"{compact(key)}:{compact(value)}," for key, value in tail.items()]
    lines += ['"peer":[', ",\n".join(map(compact, peers)), "]}"]
    return "{" + "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.getLogger("torch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    transformers.masking_utils.is_tracing = lambda *_: True  # else it looks at the values of masks
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        about, make = MODELS[name]
        head, entries, tail, peers = record(name, about, make)
        (folder / f"{name}.json").write_text(text(head, entries, tail, peers))
        print(f"{name}: {len(entries)} nodes; bytes saved",
              ", ".join(str(p["bytes"] - p["parameter_bytes"]) for p in peers),
              f"without parameters; {sum(p['seconds'] for p in peers):.1f} s", flush=True)


if __name__ == "__main__":
    main()
