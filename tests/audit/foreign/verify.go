// Verifies an exported bundle with the reference implementations of signed notes and transparency logs
// (golang.org/x/mod/sumdb), which know nothing of verbatim.
//
// usage: verify FOLDER VKEY RECEIPT...     FOLDER is a bundle; each RECEIPT is a tlog-proof followed by its leaf,
//                                          two files: r.tlog-proof and r.leaf
package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "foreign verifier:", err)
		os.Exit(1)
	}
}

func refuse(format string, arguments ...interface{}) { check(fmt.Errorf(format, arguments...)) }

// openCheckpoint returns the tree that a signed note is about.
func openCheckpoint(signed []byte, vkey string) tlog.Tree {
	verifier, err := note.NewVerifier(vkey)
	check(err)
	opened, err := note.Open(signed, note.VerifierList(verifier))
	check(err)
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() {
		refuse("not a checkpoint: %q", opened.Text)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err)
	hash, err := tlog.ParseHash(lines[2])
	check(err)
	return tlog.Tree{N: size, Hash: hash}
}

// entries reads all leaves from their bundles.
func entries(folder string, size int64) [][]byte {
	var leaves [][]byte
	for n := int64(0); n*256 < size; n++ {
		tile := tlog.Tile{H: 8, L: -1, N: n, W: 256}
		if size-n*256 < 256 {
			tile.W = int(size - n*256)
		}
		// x/mod's own layout has the height in the path: tile/8/data/...
		path := strings.Replace(tile.Path(), "tile/8/data/", "tile/entries/", 1)
		data, err := os.ReadFile(filepath.Join(folder, path))
		check(err)
		for len(data) >= 2 {
			length := int(data[0])<<8 | int(data[1])
			leaves = append(leaves, data[2:2+length])
			data = data[2+length:]
		}
	}
	return leaves
}

// tiles reads tiles for tlog.TileHashReader, which checks each against the tree.
type tiles struct{ folder string }

func (t tiles) Height() int { return 8 }
func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range wanted {
		data, err := os.ReadFile(filepath.Join(t.folder, strings.Replace(tile.Path(), "tile/8/", "tile/", 1)))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func checkReceipt(path string, vkey string) {
	text, err := os.ReadFile(path)
	check(err)
	leaf, err := os.ReadFile(strings.TrimSuffix(path, ".tlog-proof") + ".leaf")
	check(err)
	parts := bytes.SplitN(text, []byte("\n\n"), 2)
	lines := strings.Split(string(parts[0]), "\n")
	if lines[0] != "c2sp.org/tlog-proof@v1" {
		refuse("not a tlog-proof")
	}
	if !strings.HasPrefix(lines[1], "extra ") {
		refuse("the receipt does not hold its leaf")
	}
	extra, err := base64.StdEncoding.DecodeString(lines[1][6:])
	check(err)
	if !bytes.Equal(extra, leaf) {
		refuse("the receipt holds another leaf")
	}
	lines = lines[1:]
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	check(err)
	var proof tlog.RecordProof
	for _, line := range lines[2:] {
		raw, err := base64.StdEncoding.DecodeString(line)
		check(err)
		var hash tlog.Hash
		copy(hash[:], raw)
		proof = append(proof, hash)
	}
	tree := openCheckpoint(parts[1], vkey)
	check(tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(leaf)))
	if tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(append(leaf, ' '))) == nil {
		refuse("accepts another leaf")
	}
}

func main() {
	folder, vkey := os.Args[1], os.Args[2]
	signed, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	check(err)
	tree := openCheckpoint(signed, vkey)

	leaves := entries(folder, tree.N)
	if int64(len(leaves)) != tree.N {
		refuse("%d leaves of %d", len(leaves), tree.N)
	}
	reader := tlog.TileHashReader(tree, tiles{folder})
	for index, leaf := range leaves {
		hashes, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(index))})
		check(err)
		if hashes[0] != tlog.RecordHash(leaf) {
			refuse("leaf %d is not what its tile says", index)
		}
	}
	// Each smaller tree is a prefix of it.
	for older := int64(1); older <= tree.N; older += 37 {
		root, err := tlog.TreeHash(older, reader)
		check(err)
		proof, err := tlog.ProveTree(tree.N, older, reader)
		check(err)
		check(tlog.CheckTree(proof, tree.N, tree.Hash, older, root))
	}
	for _, receipt := range os.Args[3:] {
		checkReceipt(receipt, vkey)
	}
	fmt.Printf("size %d, %d leaves, %d receipts\n", tree.N, len(leaves), len(os.Args[3:]))
}
