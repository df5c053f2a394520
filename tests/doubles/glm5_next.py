"""GLM 5 Next in doubles, all positions at once, written to be read beside the architecture's description and not to be fast.

    python3 tests/doubles/glm5_next.py [RECIPE ...] [--write]

Computes seeded models (glm5-next and glm5-next-sparse unless others are named) and compares with what their recipes expect, by NMSE;
--write puts the numbers into the recipe. It says as well how close indexers came to another choice: floats must not decide it.
"""

import json
import sys

import numpy as np

import seeded


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x, eps, weight=1.0):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight


def layer_norm(x, eps, weight, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight + bias


class Model:
    """Keys, tensors, and the forward pass; `n` is positions, `dim` the columns of a stream."""

    def __init__(self, recipe):
        self.k, self.w, self.ids = recipe["keys"], seeded.tensors(recipe), np.array(recipe["ids"])
        self.eps = self.k["attention.layer_norm_rms_epsilon"]
        self.n, self.heads = len(self.ids), self.k["attention.head_count"]
        self.layers = self.k["block_count"] - self.k.get("nextn_predict_layers", 0)
        self.gap = np.inf

    def of(self, i, name):
        return self.w[f"blk.{i}.{name}"]

    def logits(self):
        """[n, vocabulary]"""
        streams = np.repeat(self.w["token_embd.weight"][self.ids][:, None], self.k["hyper_connection.count"], 1)
        for i in range(self.layers):
            recurrent = self.k["attention.head_count_kv"][i] == 0
            attend = (lambda x, i=i: self.delta(i, x)) if recurrent else (lambda x, i=i: self.attend(i, x))
            streams = self.connect(i, "attn", streams, attend)
            streams = self.connect(i, "ffn", streams, lambda x, i=i: self.feed_forward(i, x))
        x = rms_norm(streams.mean(1), self.eps, self.w["output_norm.weight"])
        return x @ self.w["output.weight"].T

    def connect(self, i, part, streams, run):
        """Streams [n, count, dim] become one row, a block's part runs, and its row goes back into all streams, which mix."""
        count, eps = streams.shape[1], self.k["hyper_connection.epsilon"]
        scale, base = self.of(i, f"hc_{part}_scale.weight"), self.of(i, f"hc_{part}_base.weight")
        mixes = rms_norm(streams.reshape(self.n, -1), self.eps) @ self.of(i, f"hc_{part}_fn.weight").T
        into, back, across = np.split(mixes, [count, 2 * count], 1)
        into = sigmoid(into * scale[0] + base[:count]) + eps
        back = 2 * sigmoid(back * scale[1] + base[count : 2 * count])
        across = (across * scale[2] + base[2 * count :]).reshape(self.n, count, count)  # [n, from, to]
        across = softmax(across) + eps
        across = across / (across.sum(1, keepdims=True) + eps)
        for _ in range(self.k["hyper_connection.sinkhorn_iterations"] - 1):
            across = across / (across.sum(2, keepdims=True) + eps)
            across = across / (across.sum(1, keepdims=True) + eps)
        x = np.einsum("ns,nsd->nd", into, streams)
        y = run(rms_norm(x, self.eps, self.of(i, f"{part}_norm.weight")))
        return back[:, :, None] * y[:, None] + np.einsum("nst,nsd->ntd", across, streams)

    def convolve(self, i, part, x):
        """A projection whose columns are each convolved with their own last rows: [n, heads, columns of a head]"""
        x, kernel = x @ self.of(i, f"attn_{part}.weight").T, self.of(i, f"ssm_conv1d_{part}.weight")[:, 0]
        size = kernel.shape[1]
        before = np.vstack([np.zeros((size - 1, x.shape[1])), x])
        y = sum(before[j : j + self.n] * kernel[:, j] for j in range(size))
        return silu(y).reshape(self.n, self.heads, -1)

    def delta(self, i, x):
        """Kimi's delta attention: a state [key, value] a head that fades by columns of keys, and is corrected by each row."""
        unit = lambda x: x / np.sqrt(np.sum(x * x, -1, keepdims=True) + 1e-6)
        q, k, v = unit(self.convolve(i, "q", x)), unit(self.convolve(i, "k", x)), self.convolve(i, "v", x)
        fade = x @ self.of(i, "ssm_f_a.weight").T @ self.of(i, "ssm_f_b.weight").T + self.of(i, "ssm_dt.bias")
        fade = fade.reshape(q.shape) * self.of(i, "ssm_a")[:, None]
        fade = np.exp(self.k["kda.gate_lower_bound"] * sigmoid(-fade))
        beta = sigmoid(x @ self.of(i, "ssm_beta.weight").T)
        size = q.shape[2]
        state, out = np.zeros((self.heads, size, size)), np.empty(q.shape)
        for t in range(self.n):
            state = state * fade[t][:, :, None]
            wrong = (v[t] - np.einsum("hk,hkv->hv", k[t], state)) * beta[t][:, None]
            state = state + k[t][:, :, None] * wrong[:, None]
            out[t] = np.einsum("hk,hkv->hv", q[t], state) / np.sqrt(size)
        gate = x @ self.of(i, "ssm_g_a.weight").T @ self.of(i, "ssm_g_b.weight").T
        out = rms_norm(out, self.eps, self.of(i, "ssm_norm.weight")) * sigmoid(gate.reshape(q.shape))
        return out.reshape(self.n, -1) @ self.of(i, "attn_output.weight").T

    def attend(self, i, x):
        """Latent attention without rotation: each row's latent makes every head's key and value."""
        low = rms_norm(x @ self.of(i, "attn_q_a.weight").T, self.eps, self.of(i, "attn_q_a_norm.weight"))
        q = (low @ self.of(i, "attn_q_b.weight").T).reshape(self.n, self.heads, -1)
        latent = rms_norm(x @ self.of(i, "attn_kv_a_mqa.weight").T, self.eps, self.of(i, "attn_kv_a_norm.weight"))
        k = np.einsum("nr,hrk->nhk", latent, self.of(i, "attn_k_b.weight"))
        v = np.einsum("nr,hvr->nhv", latent, self.of(i, "attn_v_b.weight"))
        if self.k["attention.indexer.types"][i]:
            self.seen = self.choose(i, x, low)
        scores = np.einsum("nhk,mhk->hnm", q, k) / np.sqrt(q.shape[2])
        weights = softmax(np.where(self.seen, scores, -np.inf))
        out = np.einsum("hnm,mhv->nhv", weights, v)
        return out.reshape(self.n, -1) @ self.of(i, "attn_output.weight").T

    def choose(self, i, x, low):
        """Which positions a row sees [n, n]: those of the best pools that end up to it, and those behind the last whole pool."""
        every, most = self.k["attention.indexer.kpool"], self.k["attention.indexer.top_k"]
        heads, pools = self.k["attention.indexer.head_count"], self.n // every
        q = (low @ self.of(i, "indexer.attn_q_b.weight").T).reshape(self.n, heads, -1)
        size = q.shape[2]
        eps = self.k.get("attention.layer_norm_epsilon", 1e-6)
        k = x @ self.of(i, "indexer.attn_k.weight").T
        k = layer_norm(k, eps, self.of(i, "indexer.k_norm.weight"), self.of(i, "indexer.k_norm.bias"))
        gate = x @ self.of(i, "indexer_compressor_gate.weight").T
        pooled = lambda x: x[: pools * every].reshape(pools, every, size)
        shares = softmax((pooled(gate) + self.of(i, "indexer_compressor_ape.weight")).swapaxes(1, 2))
        keys = np.einsum("pde,ped->pd", shares, pooled(k))
        weights = x @ self.of(i, "indexer.proj.weight").T / np.sqrt(size * heads)
        scores = np.einsum("nh,nph->np", weights, np.maximum(np.einsum("nhd,pd->nph", q, keys), 0))
        seen = np.zeros((self.n, self.n), bool)
        for t in range(self.n):
            whole = (t + 1) // every
            order = np.argsort(-scores[t, :whole], kind="stable")
            for pool in order[: most // every]:
                seen[t, pool * every : (pool + 1) * every] = True
            seen[t, whole * every : t + 1] = True
            if whole > most // every:
                last, next_one = scores[t, order[most // every - 1]], scores[t, order[most // every]]
                self.gap = min(self.gap, (last - next_one) / np.abs(scores[t, :whole]).max())
        return seen

    def gated(self, x, gate, up, down, limit):
        """SiLU's gated block, whose gate has a largest value and whose other half both, where there is a limit."""
        gate, up = x @ gate.T, x @ up.T
        if limit > 1e-6:
            gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return (silu(gate) * up) @ down.T

    def feed_forward(self, i, x):
        """A dense block, or the best experts beside one that all rows share."""
        shared = self.k["swiglu_clamp_shexp"][i]
        parts = lambda end: [self.of(i, f"ffn_{part}{end}.weight") for part in ("gate", "up", "down")]
        if i < self.k["leading_dense_block_count"]:
            return self.gated(x, *parts(""), shared)
        probabilities = sigmoid(x @ self.of(i, "ffn_gate_inp.weight").T)
        order = np.argsort(-(probabilities + self.of(i, "exp_probs_b.bias")), 1, kind="stable")
        used = order[:, : self.k["expert_used_count"]]
        out = self.gated(x, *parts("_shexp"), shared)
        gate, up, down = parts("_exps")
        for t in range(self.n):
            weights = probabilities[t, used[t]]
            if self.k["expert_weights_norm"]:
                weights = weights / max(weights.sum(), 2.0**-14)
            for e, weight in zip(used[t], weights * self.k["expert_weights_scale"]):
                out[t] += weight * self.gated(x[t], gate[e], up[e], down[e], self.k["swiglu_clamp_exp"][i])
        return out


def write(name, found):
    """Puts numbers into a recipe's file, and leaves the rest of it."""
    path = seeded.FOLDER / f"{name}.json"
    text, numbers = path.read_text(), json.dumps([float(f"{x:.7g}") for x in found])
    start = text.index('"expected": ') + len('"expected": ')
    path.write_text(text[:start] + numbers + text[text.index("]", start) + 1 :])


def main():
    names = [name for name in sys.argv[1:] if name != "--write"] or ["glm5-next", "glm5-next-sparse"]
    for name in names:
        recipe = seeded.read(name)
        model = Model(recipe)
        found = seeded.compared(recipe, model.logits())
        if "--write" in sys.argv:
            write(name, found)
            continue
        error = seeded.nmse(found, np.array(recipe["expected"]))
        print(f"{name}: NMSE {error:.1e}; an indexer's choice is clear by {model.gap:.1e} of its largest score")
        if error > 1e-12:
            sys.exit(f"{name}: NMSE {error:e}, expected at most 1e-12")


if __name__ == "__main__":
    main()
