/* cule.h: batches of Atari 2600 environments on the threads of a CPU, for programs without Python.
 *
 * The same ROM, seeds, options and actions give every byte that cule.AtariVectorEnv gives in Python
 * on a CPU. A game is made of two files: its ROM, and its rules, which `cule roms rules GAME`
 * writes.
 *
 * Status. Functions that return int return CULE_OK, or another cule_status; then
 * cule_last_error() says in words which argument was wrong and what is allowed, and no environment
 * has changed; but after CULE_OUT_OF_MEMORY or CULE_FAILED of cule_reset() the environments have to
 * be reset.
 *
 * Ownership. A handle belongs to the caller, who destroys it. All other memory belongs to the
 * caller before, during and after a call: the library keeps no pointer to it and returns none, but
 * for the texts of cule_last_error() and cule_version(). Arrays are contiguous; N is the number of
 * environments.
 *
 * Threads. Calls for one batch must not overlap. Anything else may run in parallel: calls for
 * different batches, also of one game.
 *
 * Growth. Structures begin with their size in bytes. A later version may add fields at their end
 * and functions; programs that were compiled with this header keep working.
 */
#ifndef CULE_H
#define CULE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CULE_API __attribute__((visibility("default")))
#else
#define CULE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CULE_OK = 0,
  CULE_INVALID_ARGUMENT = 1, /* also: damaged rules, and snapshots of something else */
  CULE_UNSUPPORTED_ROM = 2,  /* no supported type of cartridge */
  CULE_NOT_READY = 3,        /* an environment has to be reset first */
  CULE_OUT_OF_MEMORY = 4,
  CULE_FAILED = 5 /* a thread could not be started, or a mode was not reached in a reset */
} cule_status;

/* The version of the library, as in "0.2.0". */
CULE_API const char* cule_version(void);

/* Why the last failed call of this thread failed; "" before the first. Valid until the next failed
 * call of this thread. */
CULE_API const char* cule_last_error(void);

/* --- Games --------------------------------------------------------------------------- */

/* A ROM with its rules. Immutable. */
typedef struct cule_game cule_game;

/* Make a game of the bytes of both files, which are copied. */
CULE_API int cule_game_create(const void* rom, size_t rom_bytes, const void* rules,
                              size_t rules_bytes, cule_game** game_out);

/* Batches of the game keep working. NULL is allowed. */
CULE_API void cule_game_destroy(cule_game* game);

/* --- Batches ------------------------------------------------------------------------- */

typedef struct cule_batch cule_batch;

/* cule_options.obs_type: the observation of one environment. */
enum {
  CULE_OBS_IMAGE = 0,   /* uint8 [stack_num, img_height, img_width], RGB [..., 3]; oldest first */
  CULE_OBS_RAM = 1,     /* uint8 [128] */
  CULE_OBS_OBJECTS = 2, /* int16 [stack_num, K, 6]: x, y, width, height, visible, value */
  CULE_OBS_SPRITES = 3  /* int16 [stack_num, max_sprites, 11], columns as in docs/objects.md */
};

/* cule_options.autoreset_mode: when an environment whose episode has ended is reset. */
enum {
  CULE_NEXT_STEP = 0, /* in the next step, which ignores its action */
  CULE_SAME_STEP = 1, /* in the same step */
  CULE_DISABLED = 2   /* by cule_reset() */
};

#define CULE_DEFAULT_MODE (-1)

/* Options have the names, defaults and ranges of those of cule.AtariVectorEnv. Flags are 0 or 1. */
typedef struct {
  size_t size; /* of this structure */
  float repeat_action_probability;
  int32_t num_threads;            /* 0: one per environment, at most one per processor */
  int32_t thread_affinity_offset; /* -1: threads are not pinned */
  int32_t frameskip;
  int32_t max_num_frames_per_episode;
  int32_t noop_max;
  int32_t stack_num;
  int32_t img_height;
  int32_t img_width;
  int32_t max_sprites;
  int32_t num_reset_states;
  int32_t mode; /* CULE_DEFAULT_MODE: that of the game */
  int32_t difficulty;
  int32_t obs_type;
  int32_t autoreset_mode;
  int32_t grayscale;
  int32_t maxpool;
  int32_t use_fire_reset;
  int32_t full_action_space;
  int32_t episodic_life;
  int32_t life_loss_info;
  int32_t reward_clipping;
  int32_t fire_after_life_loss;
  int32_t cached_resets; /* resets="cached" */
  int32_t action_delay;  /* emulated frames between an action and its effect */
  int32_t low_memory;
} cule_options;

/* Fill in the defaults. `size`: sizeof(cule_options). */
CULE_API int cule_options_init(cule_options* options, size_t size);

/* Make N = num_envs environments. The batch keeps its game alive. options: NULL for defaults. */
CULE_API int cule_batch_create(const cule_game* game, int32_t num_envs, const cule_options* options,
                               cule_batch** batch_out);

/* Stop the threads and free the batch. NULL is allowed. */
CULE_API void cule_batch_destroy(cule_batch* batch);

typedef struct {
  size_t size; /* of this structure; set it before the call */
  int32_t num_envs;
  int32_t num_threads;
  int32_t num_actions;    /* an action is 0 .. num_actions - 1 */
  int32_t screen_height;  /* rows of cule_get_screen(); there are 160 columns */
  int32_t obs_dims;       /* dimensions of the observation of one environment */
  int32_t obs_shape[4];   /* the first obs_dims are used */
  int32_t obs_item_bytes; /* 1: uint8, 2: int16 */
  size_t obs_bytes;       /* of the observation of one environment */
  size_t state_bytes;     /* of the snapshot of one environment */
} cule_info;

CULE_API int cule_batch_info(const cule_batch* batch, cule_info* info_out);

/* The ALE action, 0 to 17, that each action is. actions_out: [num_actions]. */
CULE_API int cule_batch_actions(const cule_batch* batch, int32_t* actions_out, size_t num_actions);

/* --- Steps --------------------------------------------------------------------------- */

/* Where results go, in arrays of the caller. Set all to zero, then size, obs, obs_bytes and what
 * you want; NULL: it is not wanted. Where CULE_SAME_STEP has reset an environment, obs, lives,
 * frame numbers and `first` are those of the new episode, all others of the one that ended. */
typedef struct {
  size_t size;      /* of this structure */
  void* obs;        /* [N, obs_bytes of cule_info]; required */
  size_t obs_bytes; /* of the whole of obs; of final_obs as well, where it is given */
  void* final_obs;  /* as obs; with CULE_SAME_STEP written where an episode ended, or a lost life is
                       reported as its end; elsewhere left as it is */
  /* int32 [N] */
  int32_t* reward;     /* clipped, where reward_clipping is set */
  int32_t* raw_reward; /* not clipped */
  int32_t* lives;
  int32_t* frame_number;         /* as in ALE, in emulated frames */
  int32_t* episode_frame_number; /* likewise, of the episode */
  int32_t* episode_return;       /* not clipped; of the episode that ended, or so far */
  int32_t* episode_length;       /* in steps, likewise */
  /* uint8 [N], 0 or 1 */
  uint8_t* terminated;
  uint8_t* truncated;
  uint8_t* life_lost; /* a life was lost in the step, and the game continues */
  uint8_t* first;     /* the observation is the first of an episode */
  uint8_t* ended;     /* the episode has ended: a reset follows */
} cule_results;

/* Start new episodes. Results are those of all environments.
 * reset_mask: uint8 [N], those that are not 0 are reset; NULL: all.
 * seeds: [N], -1 .. 2^32 - 2; -1: the random streams continue, from entropy the first time; NULL:
 * all -1. AtariVectorEnv.reset(seed=s) in Python gives environment i the seed s + i. */
CULE_API int cule_reset(cule_batch* batch, const uint8_t* reset_mask, const int64_t* seeds,
                        const cule_results* results);

/* Advance every environment by `frameskip` emulated frames. actions: [N]. */
CULE_API int cule_step(cule_batch* batch, const int32_t* actions, const cule_results* results);

/* The results of the last reset or step again, such as after cule_set_state(). */
CULE_API int cule_observe(cule_batch* batch, const cule_results* results);

/* --- Snapshots and memory ------------------------------------------------------------ */

/* Save environments: the whole console, its random streams and the stack of frames.
 * indices: [num_indices]; NULL: all environments, and num_indices is N.
 * states_out: [num_indices, state_bytes of cule_info]; states_bytes is its whole size. */
CULE_API int cule_get_state(cule_batch* batch, const int32_t* indices, size_t num_indices,
                            void* states_out, size_t states_bytes);

/* Restore environments from snapshots of the same game and options, also of other environments,
 * batches and processes, and of cule in Python. */
CULE_API int cule_set_state(cule_batch* batch, const int32_t* indices, size_t num_indices,
                            const void* states, size_t states_bytes);

/* The 128 bytes of RAM of an environment. */
CULE_API int cule_get_ram(const cule_batch* batch, int32_t index, uint8_t ram_out[128]);

/* The screen of an environment, uint8 [screen_height, 160, 3], RGB. */
CULE_API int cule_get_screen(cule_batch* batch, int32_t index, void* screen_out,
                             size_t screen_bytes);

#ifdef __cplusplus
}
#endif

#endif
