// Softmax while scores come in: the largest so far, and the sum of exp(score - largest). Of EXP2, scores are powers of two.
#ifndef EXP
#define EXP exp
#endif
// Raises the largest to `now`, which is no less; what was summed up until then counts so much of it.
float raise(inout float largest, inout float sum, float now) {
    const float by = EXP(largest - now);
    sum *= by;
    largest = now;
    return by;
}
// Lets a score take part that has no value; what was summed up until then counts so much.
float sink_in(inout float largest, inout float sum, float score) {
    const float by = raise(largest, sum, max(largest, score));
    sum += EXP(score - largest);
    return by;
}
