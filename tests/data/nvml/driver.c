/* A driver that plays a recording: the part of NVML's interface that vsweep uses. Each line of the file that NVML_RECORDING names is
   one GPU at one moment, under the names of tests/data/nvml/README.md. A GPU goes on to its next line whenever its power is asked,
   which is once a reading, and stays at its last. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define OK 0
#define NOT_SUPPORTED 3
#define TOO_SMALL 7
#define GPUS 8
#define LINES 512
typedef uintptr_t gpu;
typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, slice; } process;
typedef struct {
  unsigned power, busy, sm, mem;
  int celsius;
  unsigned long long energy, used, reasons;
  char processes[200];
} moment;
static moment moments[GPUS][LINES];
static int lines[GPUS], now[GPUS], count;

int nvmlInit_v2(void) {
  if (count) return OK;
  FILE *file = fopen(getenv("NVML_RECORDING"), "r");
  char line[512];
  unsigned index;
  while (file && fgets(line, sizeof line, file)) {
    moment read = {0};
    int fields = sscanf(line, "%*[^,],%u,%u,%llu,%u,%llu,%u,%u,%d,%llx,%199s", &index, &read.power, &read.energy, &read.busy,
                        &read.used, &read.sm, &read.mem, &read.celsius, &read.reasons, read.processes);
    if (fields < 9 || index >= GPUS || lines[index] == LINES) continue;
    moments[index][lines[index]++] = read;
    if ((int)index >= count) count = index + 1;
  }
  memset(now, -1, sizeof now);
  return OK;
}
static moment *at(gpu device) {
  int place = now[device - 1];
  return &moments[device - 1][place < 0 ? 0 : place];
}
int nvmlShutdown(void) { return OK; }
int nvmlDeviceGetCount_v2(unsigned *found) { *found = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu *device) { *device = index + 1; return OK; }
int nvmlDeviceGetUUID(gpu device, char *uuid, unsigned length) {
  return snprintf(uuid, length, "GPU-%d", (int)device - 1) > 0 ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetPowerUsage(gpu device, unsigned *milliwatts) {
  if (now[device - 1] + 1 < lines[device - 1]) now[device - 1]++;
  *milliwatts = at(device)->power; return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(gpu device, unsigned long long *millijoules) {
  *millijoules = at(device)->energy; return OK;
}
int nvmlDeviceGetUtilizationRates(gpu device, rates *busy) { busy->gpu = at(device)->busy; busy->memory = 40; return OK; }
int nvmlDeviceGetMemoryInfo_v2(gpu device, memory *info) {
  info->total = 80ull << 30; info->used = at(device)->used; info->reserved = 0; info->free = info->total - info->used; return OK;
}
int nvmlDeviceGetClockInfo(gpu device, int clock, unsigned *mhz) {
  *mhz = clock == 1 ? at(device)->sm : at(device)->mem; return OK;
}
int nvmlDeviceGetTemperature(gpu device, int sensor, unsigned *celsius) {
  if (at(device)->celsius < 0) return NOT_SUPPORTED;
  *celsius = at(device)->celsius; return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(gpu device, unsigned long long *reasons) {
  *reasons = at(device)->reasons; return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(gpu device, unsigned *room, process *found) {
  unsigned told = 0, pid;
  unsigned long long used;
  for (char *text = at(device)->processes; sscanf(text, "%u:%llu", &pid, &used) == 2; told++) {
    if (found && told < *room) found[told] = (process){pid, used, ~0u, ~0u};
    text = strchr(text, ';');
    if (!text) { told++; break; }
    text++;
  }
  int status = told > *room || !found ? (told ? TOO_SMALL : OK) : OK;
  *room = told;
  return status;
}
