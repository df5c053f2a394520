// logits [w, vocab] -> the id that the sampler's chain (step/src/sample.rs) draws for each output row, kept per sequence for the
// next step and given to the host, or the best candidates for the host. Workgroups take parts of a row and leave the K best of
// theirs, in order; the last to arrive finds the best of all and does the rest of the chain. Logits are only read; no subgroup
// operations are needed. Of a row with a NaN no id is drawn: the host is told, and the next step goes on with some id of the vocabulary.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/request.glsl"
layout(local_size_x_id = 0) in; // at least K, a multiple of AT_ONCE
layout(constant_id = 1) const uint K = 1;     // most candidates of a row
layout(constant_id = 2) const uint LOADS = 1; // logits of a thread
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer Found { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };
#include "push/sample.glsl"
const uint SIZE = gl_WorkGroupSize.x;
const uint ROUND = 6; // candidates of a thread at a time when parts are joined
const uint ROOM = LOADS * K > ROUND * SIZE + K ? LOADS * K : ROUND * SIZE + K; // also for the ids to lower
const uint AT_ONCE = 8; // candidates compared in a turn of a loop

// A candidate is the key of its logit, which orders as logits do, and its id: the higher key comes first, then the lower id.
// No two are equal, so every choice below is the only one. Key 0 is no logit's: the candidate is none, and comes last. NaNs come
// before all.
const uvec2 NONE = uvec2(0, 0xffffffffu);
const uint NAN_KEY = 0xffffffffu;
bool before(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

shared uvec2 list[ROOM + AT_ONCE]; // candidates in any order; first the ids to lower: place in the part, count
shared uvec2 chosen[K];  // candidates in order
shared uint share[K + AT_ONCE]; // of the probability
shared uvec2 bound;      // what comes after it is not among the best
shared uint count, merged, arrived, kept;

const uint INFINITE = 0x7f800000u;
bool is_finite(float x) { return (floatBitsToUint(x) & INFINITE) != INFINITE; }
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > INFINITE; }

// Zeros of both signs are equal when the largest is sought, as on the host.
uint key_of(float x, bool greedy) {
    uint bits = floatBitsToUint(x);
    if (is_nan(x)) return NAN_KEY;
    if (greedy && bits == 0x80000000u) bits = 0;
    return bits ^ ((bits & 0x80000000u) != 0 ? 0xffffffffu : 0x80000000u);
}
float logit_of(uint key) { return uintBitsToFloat(key ^ ((key & 0x80000000u) != 0 ? 0x80000000u : 0xffffffffu)); }

// The nearest float, as the host divides: `/` may be a few units off.
float divided(float a, float b) {
    if (b == 1.0) return a;
    precise float q = a / b;
    if (!is_finite(q)) return q;
    precise float left = fma(-q, b, a);
    precise float nearest = fma(left, 1.0 / b, q);
    return nearest;
}

float draw_float(uint draw, uint i) { return uintBitsToFloat(params.w[draw + i]); }

#define IMPOSSIBLE uintBitsToFloat(0x80000000u | INFINITE)

// A logit after its bias and its ban or penalties.
float changed(float x, uint times, float bias, uint draw) {
    if (is_nan(x)) return x;
    if (times == BANNED) return IMPOSSIBLE;
    if (bias != 0.0 && x > IMPOSSIBLE) x += bias;
    if (times == 0) return x;
    float repeat = draw_float(draw, REQUEST_REPEAT);
    precise float by_frequency = float(times) * draw_float(draw, REQUEST_FREQUENCY);
    precise float by = by_frequency + draw_float(draw, REQUEST_PRESENCE);
    precise float repeated = x <= 0.0 ? x * repeat : divided(x, repeat);
    precise float result = repeated - by;
    return result;
}

// Leaves in `list` those ids to change that are in the part from `first` on, as place, and entry and one if it occurred once more;
// gives their number. The id that the host has not read yet joins those it sent.
const uint ALONE = 0xffffffffu; // an entry that the host did not send
uint find_changed(uint row, uint draw, uint flags, uint first) {
    uint t = gl_LocalInvocationID.x, entries = params.w[draw + REQUEST_IDS], at = params.w[draw + REQUEST_IDS_AT];
    bool joins = (flags & REQUEST_JOINS) != 0;
    if (entries == 0 && !joins) return 0;
    uint unread = joins ? sampled.v[params.w[draw + REQUEST_SEQ]] : 0xffffffffu;
    if (t == 0) count = merged = 0;
    barrier();
    for (uint i = t; i < entries; i += SIZE) {
        uint id = params.w[at + 3 * i], more = uint(id == unread && params.w[at + 3 * i + 1] != BANNED);
        if (more != 0) merged = 1;
        if (id - first < SIZE * LOADS) list[atomicAdd(count, 1)] = uvec2(id - first, 2 * i + more);
    }
    barrier();
    if (joins) {
        if (t == 0 && merged == 0 && unread - first < SIZE * LOADS) list[count++] = uvec2(unread - first, ALONE);
        barrier();
    }
    return count;
}

// How many of list[0..n) come before a candidate; after them NONE fills a turn up.
uint rank_among(uvec2 mine, uint n) {
    uint rank = 0;
    for (uint i = 0; i < n; i += AT_ONCE) {
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) rank += uint(before(list[i + j], mine));
    }
    return rank;
}
void fill_up(uint n) {
    uint i = n + gl_LocalInvocationID.x;
    if (i < (n + AT_ONCE - 1) / AT_ONCE * AT_ONCE) list[i] = NONE;
}

// The one of list[0..n) that k - 1 come before becomes the bound; without so many, none does. The count starts anew.
void bound_by(uint n, uint k) {
    uint t = gl_LocalInvocationID.x;
    fill_up(n);
    if (t == 0) {
        bound = NONE;
        count = 0;
    }
    barrier();
    for (uint i = t; i < n; i += SIZE) {
        if (list[i].x != 0 && rank_among(list[i], n) == k - 1) bound = list[i];
    }
    barrier();
}

void take(uvec2 c) {
    if (c.x != 0 && !before(bound, c)) list[atomicAdd(count, 1)] = c;
}

// chosen[0..k) = the best of list[0..n), in order.
void choose(uint n, uint k) {
    uint t = gl_LocalInvocationID.x;
    fill_up(n);
    if (t >= n && t < k) chosen[t] = NONE;
    barrier();
    for (uint i = t; i < n; i += SIZE) {
        uint rank = rank_among(list[i], n);
        if (rank < k) chosen[rank] = list[i];
    }
    barrier();
}

// From the k that each part left, `at` on, to the best of the row in chosen[0..k).
void join(uint at, uint parts, uint k) {
    uint t = gl_LocalInvocationID.x, all = parts * k;
    // Of each part every so-manieth: so many come before it or are it. What comes after all of as many of them as make k, the
    // best ones, cannot be among the best, however the best are spread over the parts.
    uint run = (k * parts + SIZE - 1) / SIZE, of_part = k / run;
    if (t < parts * of_part) list[t] = found.v[at + t / of_part * k + t % of_part * run + run - 1];
    barrier();
    bound_by(parts * of_part, (k + run - 1) / run);
    for (uint i = t; i < (all + SIZE - 1) / SIZE * SIZE; i += ROUND * SIZE) {
        uvec2 a = NONE, b = NONE, c = NONE, d = NONE, e = NONE, f = NONE; // not an array: the loop is not unrolled
        if (i < all) a = found.v[at + i];
        if (i + SIZE < all) b = found.v[at + i + SIZE];
        if (i + 2 * SIZE < all) c = found.v[at + i + 2 * SIZE];
        if (i + 3 * SIZE < all) d = found.v[at + i + 3 * SIZE];
        if (i + 4 * SIZE < all) e = found.v[at + i + 4 * SIZE];
        if (i + 5 * SIZE < all) f = found.v[at + i + 5 * SIZE];
        take(a);
        take(b);
        take(c);
        take(d);
        take(e);
        take(f);
        barrier();
        uint n = count;
        barrier(); // nobody may count on before all have read
        if (n + ROUND * SIZE > ROOM) { // rarely: the best are crowded in a few parts
            choose(n, k);
            if (t < k) list[t] = chosen[t];
            if (t == 0) {
                bound = chosen[k - 1];
                count = k;
            }
            barrier();
        }
    }
    choose(count, k);
}

// Shares of chosen[0..n) at a temperature: whole numbers whose sum fits 32 bits, so that no order of adding matters and a tie
// at a limit is exact. `x` is the thread's logit over the temperature, `best` the first one's. Gives its share, the shares up
// to it, and all.
void share_out(uint n, float x, float best, out uint mine, out uint upto, out uint all) {
    uint t = gl_LocalInvocationID.x;
    mine = t < n && is_finite(x) ? uint(min(exp(x - best), 1.0) * float(0xff000000u / n)) : 0;
    if (t < n) share[t] = mine;
    if (t < AT_ONCE) share[n + t] = 0;
    barrier();
    upto = all = 0;
    for (uint i = 0; i < n; i += AT_ONCE) {
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) {
            all += share[i + j];
            upto += i + j <= t ? share[i + j] : 0;
        }
    }
}

// From chosen[0..n) to the place of the drawn one, in `kept`. `with`: random number, top-p, logarithm of min-p, temperature.
void draw_one(uint flags, uvec4 with, uint n) {
    uint t = gl_LocalInvocationID.x, mine, upto, all, high, low;
    float best = logit_of(chosen[0].x), x = t < n ? logit_of(chosen[t].x) : best;
    if (t == 0) kept = n;
    barrier();
    if ((flags & REQUEST_TOP_P) != 0) {
        share_out(n, x, best, mine, upto, all);
        umulExtended(all, with.y, high, low);
        uint least = high + uint(low != 0);
        if (t < n && upto >= least && (t == 0 || upto - mine < least)) kept = t + 1;
        barrier();
        n = kept;
        barrier();
    }
    if ((flags & REQUEST_MIN_P) != 0) {
        float lowest = min(best + uintBitsToFloat(with.z), best);
        if (t < n && (!is_finite(x) || x < lowest)) atomicMin(kept, t);
        barrier();
        n = kept;
        barrier();
    }
    if (t == 0) kept = 0; // if the best one is impossible or infinite
    float temperature = uintBitsToFloat(with.w);
    best = divided(best, temperature);
    if (!is_finite(best)) return;
    share_out(n, divided(x, temperature), best, mine, upto, all);
    umulExtended(all, with.x, high, low);
    if (upto > high && upto - mine <= high) kept = t;
}

// 0 of what is impossible, whatever is the best.
float exponential_above(float x, float best, uint draw) {
    return x > IMPOSSIBLE ? exp((x - best) / draw_float(draw, REQUEST_TEMPERATURE)) : 0.0;
}

// The sum over all threads, in all of them; `list` is used for it.
float sum_of_threads(float mine) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    list[t].x = floatBitsToUint(mine);
    barrier();
    for (uint n = SIZE; n > 1;) {
        uint keep = (n + 1) / 2;
        if (t + keep < n) list[t].x = floatBitsToUint(uintBitsToFloat(list[t].x) + uintBitsToFloat(list[t + keep].x));
        n = keep;
        barrier();
    }
    return uintBitsToFloat(list[0].x);
}

void main() {
    uint row = gl_WorkGroupID.x, part = gl_WorkGroupID.y, parts = gl_NumWorkGroups.y, t = gl_LocalInvocationID.x;
    uint first = part * SIZE * LOADS, draw = requests_at + row * STEP_REQUEST_WORDS;
    float x[LOADS];
    [[unroll]] for (uint j = 0; j < LOADS; j++) x[j] = logits.v[row * vocab + min(first + j * SIZE + t, vocab - 1)];
    if (row >= params.w[STEP_OUTPUTS]) return; // the recording has room for more; nothing above waits for the answer
    uint k = params.w[draw + REQUEST_K], flags = params.w[draw + REQUEST_FLAGS];
    bool greedy = (flags & REQUEST_GREEDY) != 0;
    uvec2 mask = uvec2(params.w[draw + REQUEST_MASK], params.w[draw + REQUEST_MASK + 1]);
    if (mask != uvec2(0)) {
        U32 bits = U32(mask);
        [[unroll]] for (uint j = 0; j < LOADS; j++) {
            uint id = min(first + j * SIZE + t, vocab - 1);
            if ((bits.v[id / 32] >> (id % 32) & 1) == 0 && !is_nan(x[j])) x[j] = IMPOSSIBLE;
        }
    }
    bool listed = (flags & REQUEST_LISTED) != 0;
    uint n = listed ? 0 : find_changed(row, draw, flags, first);
    for (uint i = 0; i < n; i++) {
        uvec2 entry = list[i];
        if (entry.x % SIZE != t) continue;
        uint times = 1;
        float bias = 0.0;
        if (entry.y != ALONE) {
            uint at = params.w[draw + REQUEST_IDS_AT] + 3 * (entry.y / 2);
            times = params.w[at + 1];
            if (times != BANNED) times += entry.y % 2;
            bias = uintBitsToFloat(params.w[at + 2]);
        }
        [[unroll]] for (uint j = 0; j < LOADS; j++) {
            if (entry.x / SIZE == j) x[j] = changed(x[j], times, bias, draw);
        }
    }
    uint key[LOADS];
    uvec2 mine = NONE;
    [[unroll]] for (uint j = 0; j < LOADS; j++) {
        uint id = first + j * SIZE + t;
        key[j] = id < vocab ? key_of(x[j], greedy) : 0;
        if (key[j] > mine.x) mine = uvec2(key[j], id);
    }
    barrier();
    // Of the threads' best ones, the k-th bounds the part's: at most LOADS of each of k threads are left.
    list[t] = mine;
    barrier();
    bound_by(SIZE, k);
    [[unroll]] for (uint j = 0; j < LOADS; j++) take(uvec2(key[j], first + j * SIZE + t));
    barrier();
    choose(count, k);
    float top = logit_of(chosen[0].x), sum = 0.0;
    uint sums_at = gl_NumWorkGroups.x * parts * K + row * parts;
    if (listed) {
        [[unroll]] for (uint j = 0; j < LOADS; j++) {
            if (first + j * SIZE + t < vocab) sum += exponential_above(x[j], top, draw);
        }
        sum = sum_of_threads(sum);
    }
    if (parts > 1) {
        uint at = row * parts * K;
        if (t < k) found.v[at + part * k + t] = chosen[t];
        if (listed && t == 0) found.v[sums_at + part] = uvec2(floatBitsToUint(top), floatBitsToUint(sum));
        memoryBarrierBuffer();
        barrier();
        if (t == 0) {
            arrived = atomicAdd(arrivals.v[row], 1);
            if (arrived == parts - 1) arrivals.v[row] = 0;
        }
        barrier();
        if (arrived != parts - 1) return;
        memoryBarrierBuffer();
    }
    uvec4 with = uvec4(params.w[draw + REQUEST_UNIT], params.w[draw + REQUEST_P], params.w[draw + REQUEST_LN_MIN_P],
                       params.w[draw + REQUEST_TEMPERATURE]);
    if (parts > 1) join(row * parts * K, parts, k);
    bool nan = chosen[0].x == NAN_KEY;
    if (listed && !nan) {
        if (parts > 1) {
            top = logit_of(chosen[0].x);
            sum = 0.0;
            for (uint p = t; p < parts; p += SIZE) {
                uvec2 of_part = found.v[sums_at + p];
                sum += uintBitsToFloat(of_part.y) * exponential_above(uintBitsToFloat(of_part.x), top, draw);
            }
            sum = sum_of_threads(sum);
        }
        Found to = Found(uvec2(params.w[draw + REQUEST_LISTED_AT], params.w[draw + REQUEST_LISTED_AT + 1]));
        if (t < k) to.v[t] = uvec2(floatBitsToUint(logit_of(chosen[t].x)), chosen[t].y);
        if (t == 0) to.v[K] = uvec2(floatBitsToUint(top), floatBitsToUint(sum));
        uint entries = params.w[draw + REQUEST_IDS], at = params.w[draw + REQUEST_IDS_AT];
        for (uint i = t; i < entries; i += SIZE) {
            uint id = min(params.w[at + 3 * i], vocab - 1);
            to.v[K + 1 + i] = uvec2(floatBitsToUint(logits.v[row * vocab + id]), 0);
        }
    }
    if (!greedy && !nan) draw_one(flags, with, min(k, vocab));
    barrier();
    if (t == 0) {
        uint id = nan ? ID_NAN : chosen[greedy ? 0 : kept].y;
        if ((flags & REQUEST_LAST) != 0) sampled.v[params.w[draw + REQUEST_SEQ]] = nan ? 0 : id;
        ids.v[row] = id;
    }
}
