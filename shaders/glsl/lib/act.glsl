// Functions of one number, where devices' own are only good to an absolute error, or not at all for large numbers.
#include "words/general.glsl"

float exp_minus_1(float x) {
    if (abs(x) > 0.5) return exp(x) - 1.0;
    return x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0 * (1.0 + x / 7.0 * (1.0 + x / 8.0)))))));
}
// ln(1 + x) of x above -0.5.
float log_1_plus(float x) {
    if (abs(x) > 0.5) return log(1.0 + x);
    const float s = x / (2.0 + x), t = s * s;
    return 2.0 * s * (1.0 + t * (1.0 / 3.0 + t * (1.0 / 5.0 + t * (1.0 / 7.0 + t * (1.0 / 9.0 + t / 11.0)))));
}
float sigmoid(float x) { return 1.0 / (1.0 + exp(min(-x, 80.0))); }
float softplus(float x) { return x > 20.0 ? x : log_1_plus(exp(x)); }
float tanh_of(float x) {
    const float a = abs(x), t = x * x;
    if (a < 0.3) return x * (1.0 - t * (1.0 / 3.0 - t * (2.0 / 15.0 - t * (17.0 / 315.0 - t * (62.0 / 2835.0)))));
    return sign(x) * (1.0 - 2.0 / (exp(2.0 * min(a, 15.0)) + 1.0));
}
// Abramowitz and Stegun 7.1.26; to 2e-7.
float erf_of(float x) {
    const float a = min(abs(x), 6.0), t = 1.0 / (1.0 + 0.3275911 * a);
    const float sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(x) * (1.0 - sum * exp(-a * a));
}
float acted(uint act, float x, vec4 p) {
    switch (act) {
        case ACT_SILU: return x * sigmoid(x);
        case ACT_GELU: return 0.5 * x * (1.0 + tanh_of(0.7978846 * x * (1.0 + 0.044715 * x * x)));
        case ACT_GELU_ERF: return 0.5 * x * (1.0 + erf_of(x * 0.70710678));
        case ACT_GELU_QUICK: return x * sigmoid(1.702 * x);
        case ACT_RELU: return max(x, 0.0);
        case ACT_RELU_SQUARED: return max(x, 0.0) * max(x, 0.0);
        case ACT_SIGMOID: return sigmoid(x);
        case ACT_TANH: return tanh_of(x);
        case ACT_SOFTPLUS: return softplus(x);
        case ACT_EXP: return exp(x);
        case ACT_CLAMP: return clamp(x, p.x, p.y);
        case ACT_SOFT_CAP: return p.x * tanh_of(x / p.x);
        case ACT_SILU_CLAMPED: return min(x, p.y) * sigmoid(p.x * min(x, p.y));
        case ACT_SITU: return p.x * tanh_of(x / p.x) * sigmoid(x);
        case ACT_INVERSE: return 1.0 / x;
        case ACT_SQRT: return sqrt(x);
        case ACT_XIELU:
            if (x > 0.0) return softplus(p.y) * x * x + p.z * x;
            return (p.z + softplus(p.x)) * (exp_minus_1(min(x, p.w)) - x) + p.z * x;
    }
    return x;
}
