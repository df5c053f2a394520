// Sample requests, a part of StepParams: words of an output row's, and bits of its flags.
#include "words/request.glsl"
