// tests/cpp/core_on_device.cu: the core, compiled by nvcc as it stands: one console a thread, one agent step.
#include "env/agent.hpp"
#include "tia/paint.hpp"

namespace cule {

struct NoCapture {
  CULE_HD Observation* observation(i32) { return nullptr; }
  CULE_HD void previous() {}
  CULE_HD void newest() {}
};

__global__ void step_console_kernel(const Cart* cart, const ConsoleProperties* properties, const GameFacts* game,
                                    const AleSettings* settings, const AgentOptions* options, ConsoleState* consoles,
                                    FrameMemory* memories, EnvState* envs, ExactStreams* streams, AgentState* agents,
                                    const i32* actions, u8* pictures, const u8* map) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  const Console console{consoles[i], memories[i], *cart, *properties};
  Ale ale{console, envs[i], streams[i], *game, *settings, {false, 0, i}};
  NoCapture capture;
  step_agent(ale, agents[i], *options, actions[i], 1.0f, capture);
  draw_picture(console, console.s.picture.current, pictures + size_t(i) * kMaxRows * kScreenWidth, map);
}

}  // namespace cule
