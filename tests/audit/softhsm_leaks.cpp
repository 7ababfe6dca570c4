// SoftHSM 2.6 does not free what it reads an Ed25519 key's curve from: for AddressSanitizer, what is allocated in it is not
// ours. To tell, the whole stack of each allocation is needed, which the fast unwinder loses in libraries.
// The names are the sanitizer's: NOLINTBEGIN(bugprone-reserved-identifier)

extern "C" {
const char* __asan_default_options();
const char* __lsan_default_suppressions();

const char* __asan_default_options() { return "fast_unwind_on_malloc=0"; }
const char* __lsan_default_suppressions() { return "leak:libsofthsm2.so\n"; }
}
// NOLINTEND(bugprone-reserved-identifier)
