/* Random play in a batch of environments. Prints the episodes that ended, the sum of all rewards,
 * and a checksum of all results, which examples/c/ctypes_play.py prints as well.
 *
 *     cule roms rules pong                # writes pong.rules, and says where the ROM is
 *     cc random_play.c -o random_play $(pkg-config --cflags --libs cule)
 *     ./random_play pong.bin pong.rules 8 1000
 */
#include <cule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int status) {
  if (status == CULE_OK) return;
  fprintf(stderr, "random_play: %s\n", cule_last_error());
  exit(1);
}

static void* allocate(size_t bytes) {
  void* memory = calloc(bytes, 1);
  if (memory == NULL) {
    fprintf(stderr, "random_play: there is not enough memory\n");
    exit(1);
  }
  return memory;
}

static unsigned char* read_file(const char* path, size_t* bytes_out) {
  const size_t most = 1 << 20;
  unsigned char* bytes = allocate(most);
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  *bytes_out = fread(bytes, 1, most, file);
  fclose(file);
  return bytes;
}

/* Adler-32, as in zlib. */
static uint32_t add_bytes(uint32_t checksum, const void* data, size_t bytes) {
  const unsigned char* next = data;
  uint32_t low = checksum & 0xFFFF, high = checksum >> 16;
  for (; bytes > 0; --bytes, ++next) {
    low = (low + *next) % 65521;
    high = (high + low) % 65521;
  }
  return high << 16 | low;
}

static uint32_t add_results(uint32_t checksum, const cule_results* r, size_t n) {
  checksum = add_bytes(checksum, r->obs, r->obs_bytes);
  checksum = add_bytes(checksum, r->reward, n * sizeof *r->reward);
  checksum = add_bytes(checksum, r->lives, n * sizeof *r->lives);
  checksum = add_bytes(checksum, r->terminated, n);
  return add_bytes(checksum, r->truncated, n);
}

int main(int argc, char** argv) {
  size_t rom_bytes, rules_bytes, n, i;
  unsigned char *rom, *rules, *states;
  cule_game* game;
  cule_batch* batch;
  cule_options options;
  cule_info info;
  cule_results results;
  int32_t* actions;
  int64_t* seeds;
  uint32_t random = 1, checksum = 1;
  long step, steps, reward = 0, episodes = 0;

  if (argc != 5) {
    fprintf(stderr, "usage: random_play ROM RULES NUM_ENVS STEPS\n");
    return 2;
  }
  n = (size_t)atoi(argv[3]);
  steps = atol(argv[4]);
  rom = read_file(argv[1], &rom_bytes);
  rules = read_file(argv[2], &rules_bytes);
  check(cule_game_create(rom, rom_bytes, rules, rules_bytes, &game));
  free(rules);
  free(rom);

  check(cule_options_init(&options, sizeof options));
  options.repeat_action_probability = 0.25f;
  options.autoreset_mode = CULE_SAME_STEP;
  check(cule_batch_create(game, (int32_t)n, &options, &batch));
  cule_game_destroy(game); /* the batch keeps it */
  info.size = sizeof info;
  check(cule_batch_info(batch, &info));

  memset(&results, 0, sizeof results);
  results.size = sizeof results;
  results.obs_bytes = n * info.obs_bytes;
  results.obs = allocate(results.obs_bytes);
  results.reward = allocate(n * sizeof *results.reward);
  results.lives = allocate(n * sizeof *results.lives);
  results.terminated = allocate(n);
  results.truncated = allocate(n);
  actions = allocate(n * sizeof *actions);
  seeds = allocate(n * sizeof *seeds);
  for (i = 0; i < n; ++i) seeds[i] = (int64_t)i;

  check(cule_reset(batch, NULL, seeds, &results));
  checksum = add_results(checksum, &results, n);
  for (step = 0; step < steps; ++step) {
    for (i = 0; i < n; ++i) {
      random = random * 1664525 + 1013904223;
      actions[i] = (int32_t)((random >> 16) % (uint32_t)info.num_actions);
    }
    check(cule_step(batch, actions, &results));
    checksum = add_results(checksum, &results, n);
    for (i = 0; i < n; ++i) {
      reward += results.reward[i];
      episodes += results.terminated[i] || results.truncated[i];
    }
  }

  /* A snapshot holds everything: after a step, it brings the last results back. */
  states = allocate(n * info.state_bytes);
  check(cule_get_state(batch, NULL, n, states, n * info.state_bytes));
  check(cule_step(batch, actions, &results));
  check(cule_set_state(batch, NULL, n, states, n * info.state_bytes));
  check(cule_observe(batch, &results));
  checksum = add_results(checksum, &results, n);

  printf("libcule %s: %ld episodes, reward %ld, checksum %08lx\n", cule_version(), episodes, reward,
         (unsigned long)checksum);
  cule_batch_destroy(batch);
  free(states);
  free(seeds);
  free(actions);
  free(results.truncated);
  free(results.terminated);
  free(results.lives);
  free(results.reward);
  free(results.obs);
  return 0;
}
