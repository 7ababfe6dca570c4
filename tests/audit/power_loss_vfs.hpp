#pragma once
// A disk that loses power: SQLite's own file layer, with a record of what was written and not yet synced.
//
// When the power goes, each file becomes what was synced last plus any subset of the writes since, sector by sector;
// a file that was never synced may be missing, and one that was deleted may be back.

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace verbatim::audit::test {

/// Becomes SQLite's default file layer. One object at a time, for the life of the process.
class PowerLossDisk {
 public:
  PowerLossDisk() {
    real_ = sqlite3_vfs_find("unix");
    vfs_ = *real_;
    vfs_.zName = "power-loss";
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.pAppData = this;
    vfs_.xOpen = open;
    vfs_.xDelete = remove;
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~PowerLossDisk() {
    sqlite3_vfs_register(real_, 1);
    sqlite3_vfs_unregister(&vfs_);
  }
  PowerLossDisk(const PowerLossDisk&) = delete;
  PowerLossDisk& operator=(const PowerLossDisk&) = delete;

  /// The power goes after so many writes, syncs, truncations and deletions: everything fails from then on.
  void lose_power_after(std::uint64_t operations) {
    const std::lock_guard lock(mutex_);
    images_.clear();
    left_ = operations;
    watching_ = true;
  }
  [[nodiscard]] bool dead() const { return watching_ && left_ == 0; }

  /// Once every file is closed: what is on the disk when the power is back.
  void restore_power(std::mt19937& random) {
    const std::lock_guard lock(mutex_);
    watching_ = false;
    for (auto& [path, image] : images_) {
      const bool there = image.deleted ? !image.delete_synced && image.existed && random() % 2 == 0
                                       : image.existed || random() % 2 == 0;
      if (!there) {
        std::filesystem::remove(path);
        continue;
      }
      std::string bytes = image.synced;
      for (const Write& write : image.pending) {
        if (write.truncate) {
          if (random() % 2 == 0) bytes.resize(write.offset, '\0');
          continue;
        }
        for (std::size_t at = 0; at < write.bytes.size(); at += kSector) {
          if (random() % 2 == 0) continue;
          const std::string_view sector = std::string_view(write.bytes).substr(at, kSector);
          const std::size_t place = write.offset + at;
          if (bytes.size() < place + sector.size()) bytes.resize(place + sector.size(), '\0');
          bytes.replace(place, sector.size(), sector);
        }
      }
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    }
    images_.clear();
  }

 private:
  static constexpr std::size_t kSector = 512;

  struct Write {
    std::size_t offset = 0;
    std::string bytes;
    bool truncate = false;
  };
  struct Image {
    std::string synced;
    std::vector<Write> pending;
    bool existed = false;  // its name is durable
    bool deleted = false, delete_synced = false;
  };
  struct File {
    sqlite3_file base;
    PowerLossDisk* disk;
    std::string* path;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static File* of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
  static sqlite3_file* real_of(sqlite3_file* file) { return of(file)->real(); }

  /// False once the power is gone.
  bool count() {
    if (!watching_) return true;
    if (left_ == 0) return false;
    --left_;
    return left_ > 0;
  }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
    auto* disk = static_cast<PowerLossDisk*>(vfs->pAppData);
    File* mine = of(file);
    mine->base.pMethods = nullptr;
    mine->disk = disk;
    const bool existed = name != nullptr && std::filesystem::exists(name);
    const int code = disk->real_->xOpen(disk->real_, name, mine->real(), flags, out);
    if (code != SQLITE_OK) return code;
    mine->path = new std::string(name != nullptr ? name : "");
    static const sqlite3_io_methods kMethods = methods();
    mine->base.pMethods = &kMethods;
    const std::lock_guard lock(disk->mutex_);
    if (disk->watching_ && name != nullptr && !disk->images_.contains(name)) {
      Image& image = disk->images_[name];
      image.existed = existed;
      std::ifstream in(name, std::ios::binary);
      image.synced.assign(std::istreambuf_iterator<char>(in), {});
    } else if (disk->watching_ && name != nullptr) {
      disk->images_[name].deleted = false;
    }
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* vfs, const char* name, int sync_folder) {
    auto* disk = static_cast<PowerLossDisk*>(vfs->pAppData);
    const std::lock_guard lock(disk->mutex_);
    if (!disk->count()) return SQLITE_IOERR_DELETE;
    const auto image = disk->images_.find(name);
    if (image != disk->images_.end()) {
      // A name that is durably gone comes back as a new file only: nothing of the old one can return under it.
      if (sync_folder != 0) image->second = Image();
      image->second.deleted = true;
      image->second.delete_synced = sync_folder != 0;
    }
    return disk->real_->xDelete(disk->real_, name, 0);
  }
  static int close(sqlite3_file* file) {
    delete of(file)->path;
    return real_of(file)->pMethods->xClose(real_of(file));
  }
  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    PowerLossDisk& disk = *of(file)->disk;
    const std::lock_guard lock(disk.mutex_);
    if (!disk.count()) return SQLITE_IOERR_WRITE;
    if (disk.watching_) {
      disk.images_[*of(file)->path].pending.push_back(
          {static_cast<std::size_t>(offset),
           std::string(static_cast<const char*>(data), static_cast<std::size_t>(size)), false});
    }
    return real_of(file)->pMethods->xWrite(real_of(file), data, size, offset);
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    PowerLossDisk& disk = *of(file)->disk;
    const std::lock_guard lock(disk.mutex_);
    if (!disk.count()) return SQLITE_IOERR_TRUNCATE;
    if (disk.watching_) {
      disk.images_[*of(file)->path].pending.push_back({static_cast<std::size_t>(size), "", true});
    }
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
  }
  static int sync(sqlite3_file* file, int) {
    PowerLossDisk& disk = *of(file)->disk;
    const std::lock_guard lock(disk.mutex_);
    if (!disk.count()) return SQLITE_IOERR_FSYNC;
    if (!disk.watching_) return SQLITE_OK;
    Image& image = disk.images_[*of(file)->path];
    for (const Write& w : image.pending) {
      if (w.truncate) {
        image.synced.resize(w.offset, '\0');
        continue;
      }
      if (image.synced.size() < w.offset + w.bytes.size()) {
        image.synced.resize(w.offset + w.bytes.size(), '\0');
      }
      image.synced.replace(w.offset, w.bytes.size(), w.bytes);
    }
    image.pending.clear();
    image.existed = true;  // the unix layer syncs the folder with a new journal's first sync
    return SQLITE_OK;
  }

  template <auto Method>
  struct Forward;
  template <class... Rest, int (*sqlite3_io_methods::*Method)(sqlite3_file*, Rest...)>
  struct Forward<Method> {
    static int call(sqlite3_file* file, Rest... rest) {
      return (real_of(file)->pMethods->*Method)(real_of(file), rest...);
    }
  };
  static void barrier(sqlite3_file* file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }
  static sqlite3_io_methods methods() {
    using M = sqlite3_io_methods;
    M m{};
    m.iVersion = 2;
    m.xClose = close;
    m.xRead = Forward<&M::xRead>::call;
    m.xWrite = write;
    m.xTruncate = truncate;
    m.xSync = sync;
    m.xFileSize = Forward<&M::xFileSize>::call;
    m.xLock = Forward<&M::xLock>::call;
    m.xUnlock = Forward<&M::xUnlock>::call;
    m.xCheckReservedLock = Forward<&M::xCheckReservedLock>::call;
    m.xFileControl = Forward<&M::xFileControl>::call;
    m.xSectorSize = Forward<&M::xSectorSize>::call;
    m.xDeviceCharacteristics = Forward<&M::xDeviceCharacteristics>::call;
    m.xShmMap = Forward<&M::xShmMap>::call;
    m.xShmLock = Forward<&M::xShmLock>::call;
    m.xShmBarrier = barrier;
    m.xShmUnmap = Forward<&M::xShmUnmap>::call;
    return m;
  }

  sqlite3_vfs* real_ = nullptr;
  sqlite3_vfs vfs_{};
  mutable std::mutex mutex_;
  std::map<std::string, Image> images_;  // by path
  std::uint64_t left_ = 0;
  bool watching_ = false;
};

}  // namespace verbatim::audit::test
