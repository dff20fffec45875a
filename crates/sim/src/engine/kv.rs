//! The blocks of the KV cache: free ones, shared ones, and those that can be found again by content. A freed block keeps its content until
//! it is reused; the one that was freed longest ago is reused first. Without prefix caching, content does not matter and blocks are only
//! counted. This module does not know requests or time.

use nohash_hasher::IntMap;

/// Index of a block in the pool.
pub type BlockId = u32;

/// The end of the list of free blocks.
const NONE: BlockId = BlockId::MAX;

#[derive(Debug, Clone, Copy)]
struct Block {
    /// Number of requests that hold it.
    users: u32,
    /// Hash of its content, if the block can be found by its content.
    hash: Option<u64>,
    /// Neighbours in the list of free blocks.
    previous: BlockId,
    next: BlockId,
}

/// The blocks that a request holds.
#[derive(Debug, Default)]
pub struct HeldBlocks {
    count: usize,
    /// Their ids; empty if blocks are only counted.
    ids: Vec<BlockId>,
}

impl HeldBlocks {
    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Id of the block at this index. Only known in a pool that keeps content.
    pub fn id(&self, index: usize) -> BlockId {
        self.ids[index]
    }

    /// Adds a block that was found by its content.
    pub fn push(&mut self, id: BlockId) {
        self.ids.push(id);
        self.count += 1;
    }

    /// Sets the number of blocks, after [`Pool::take_counted`].
    pub fn recount(&mut self, count: usize) {
        debug_assert!(self.ids.is_empty(), "blocks with content are counted by their ids");
        self.count = count;
    }
}

/// All blocks of one engine. Free blocks form a list in the order in which they were freed.
#[derive(Debug)]
pub struct Pool {
    /// Empty if blocks are only counted.
    blocks: Vec<Block>,
    /// Blocks by the hash of their content. The map does not hash these keys again, which would be half the cost of a cached block.
    cached: IntMap<u64, BlockId>,
    oldest: BlockId,
    newest: BlockId,
    count: usize,
    free: usize,
}

impl Pool {
    /// Returns a pool of `count` free blocks. If `has_content` is true, they can be found again by content.
    pub fn new(count: usize, has_content: bool) -> Self {
        let mut pool = Pool {
            blocks: Vec::new(),
            cached: IntMap::default(),
            oldest: NONE,
            newest: NONE,
            count,
            free: count,
        };
        if has_content {
            let empty = Block {
                users: 0,
                hash: None,
                previous: NONE,
                next: NONE,
            };
            pool.blocks = vec![empty; count];
            pool.free = 0;
            (0..count as BlockId).for_each(|id| pool.push_newest(id));
        }
        pool
    }

    /// Returns true if blocks are only counted.
    pub fn only_counts(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Number of blocks in use.
    pub fn used(&self) -> usize {
        self.count - self.free
    }

    /// Number of blocks not in use.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Moves `count` free blocks to `to`. Takes none and returns false if there are not enough.
    pub fn take(&mut self, count: usize, to: &mut HeldBlocks) -> bool {
        if count > self.free {
            return false;
        }
        to.count += count;
        if self.only_counts() {
            self.free -= count;
            return true;
        }
        for _ in 0..count {
            let id = self.oldest;
            self.unlink(id);
            let block = &mut self.blocks[id as usize];
            block.users = 1;
            if let Some(hash) = block.hash.take() {
                self.cached.remove(&hash);
            }
            to.ids.push(id);
        }
        true
    }

    /// Takes blocks that are only counted, of which there must be enough. The requests that hold them are corrected later, by
    /// [`HeldBlocks::recount`].
    pub fn take_counted(&mut self, count: usize) {
        debug_assert!(self.only_counts() && count <= self.free, "enough blocks are free");
        self.free -= count;
    }

    /// Gives blocks back, last one first, because the end of a sequence is the least likely to be needed again.
    pub fn release(&mut self, held: &mut HeldBlocks) {
        let count = std::mem::take(&mut held.count);
        if self.only_counts() {
            self.free += count;
        }
        while let Some(id) = held.ids.pop() {
            let block = &mut self.blocks[id as usize];
            block.users -= 1;
            if block.users == 0 {
                self.push_newest(id);
            }
        }
    }

    /// Makes a full block findable by its content. Of several blocks with equal content, only the first is findable.
    pub fn remember(&mut self, id: BlockId, hash: u64) {
        if self.blocks[id as usize].hash.is_none() && !self.cached.contains_key(&hash) {
            self.blocks[id as usize].hash = Some(hash);
            self.cached.insert(hash, id);
        }
    }

    /// Returns the block with this content, if there is one, and counts one more user.
    pub fn find(&mut self, hash: u64) -> Option<BlockId> {
        let id = *self.cached.get(&hash)?;
        if self.blocks[id as usize].users == 0 {
            self.unlink(id);
        }
        self.blocks[id as usize].users += 1;
        Some(id)
    }

    /// Forgets the contents of all blocks.
    pub fn forget(&mut self) {
        self.cached.clear();
        for block in &mut self.blocks {
            block.hash = None;
        }
    }

    fn push_newest(&mut self, id: BlockId) {
        let previous = self.newest;
        self.blocks[id as usize].previous = previous;
        self.blocks[id as usize].next = NONE;
        match self.blocks.get_mut(previous as usize) {
            Some(block) => block.next = id,
            None => self.oldest = id,
        }
        self.newest = id;
        self.free += 1;
    }

    fn unlink(&mut self, id: BlockId) {
        let Block { previous, next, .. } = self.blocks[id as usize];
        match self.blocks.get_mut(previous as usize) {
            Some(block) => block.next = next,
            None => self.oldest = next,
        }
        match self.blocks.get_mut(next as usize) {
            Some(block) => block.previous = previous,
            None => self.newest = previous,
        }
        self.free -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_is_found_until_it_is_reused() {
        let mut pool = Pool::new(2, true);
        let mut mine = HeldBlocks::default();
        assert!(pool.take(1, &mut mine));
        pool.remember(mine.id(0), 7);
        pool.release(&mut mine);
        assert_eq!(pool.used(), 0);
        mine.push(pool.find(7).expect("still cached"));
        assert_eq!(pool.used(), 1);
        assert!(!pool.take(2, &mut HeldBlocks::default()), "one block is in use");
        pool.release(&mut mine);
        assert!(pool.take(2, &mut mine));
        assert_eq!(pool.find(7), None);
    }

    #[test]
    fn a_shared_block_is_free_when_its_last_user_is_gone() {
        let mut pool = Pool::new(1, true);
        let (mut first, mut second) = (HeldBlocks::default(), HeldBlocks::default());
        assert!(pool.take(1, &mut first));
        pool.remember(first.id(0), 1);
        second.push(pool.find(1).expect("cached"));
        pool.release(&mut first);
        assert_eq!(pool.used(), 1);
        pool.release(&mut second);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn without_content_blocks_are_counted() {
        let mut pool = Pool::new(3, false);
        let mut mine = HeldBlocks::default();
        assert!(pool.take(2, &mut mine) && !pool.take(2, &mut mine));
        pool.take_counted(1);
        assert_eq!((pool.used(), mine.count()), (3, 2));
        mine.recount(3);
        pool.release(&mut mine);
        assert_eq!((pool.free(), mine.count()), (3, 0));
    }
}
