//! KV blocks: which are free, which are shared, which can be found again by content. A freed block keeps its content
//! until it is needed for something else; the one freed longest ago goes first. Where content is of no consequence, one
//! block is like another, and they are only counted. Knows nothing of requests or time.

use nohash_hasher::IntMap;

/// Index of a block in the pool.
pub type BlockId = u32;

const NONE: BlockId = BlockId::MAX;

#[derive(Debug, Clone, Copy)]
struct Block {
    users: u32,
    hash: Option<u64>,
    previous: BlockId,
    next: BlockId,
}

/// The blocks that a request holds.
#[derive(Debug, Default)]
pub struct HeldBlocks {
    count: usize,
    /// Their ids, if they matter.
    ids: Vec<BlockId>,
}

impl HeldBlocks {
    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Id of the `place`-th block. Only known in a pool that keeps content.
    pub fn id(&self, place: usize) -> BlockId {
        self.ids[place]
    }

    /// Adds a block that was found.
    pub fn push(&mut self, id: BlockId) {
        self.ids.push(id);
        self.count += 1;
    }

    /// Sets the number after blocks were taken for several requests at once.
    pub fn recount(&mut self, count: usize) {
        debug_assert!(self.ids.is_empty(), "blocks of content are taken one by one");
        self.count = count;
    }
}

/// All blocks of one engine. Free blocks form a list from longest free to just freed.
#[derive(Debug)]
pub struct Pool {
    /// Empty where blocks are only counted.
    blocks: Vec<Block>,
    /// By content. Contents are hashes already: to hash them again would be half the cost of a cached block.
    cached: IntMap<u64, BlockId>,
    oldest: BlockId,
    newest: BlockId,
    count: usize,
    free: usize,
}

impl Pool {
    /// A pool of `count` free blocks; `has_content` says whether they are to be found again by content.
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

    /// Blocks in use.
    pub fn used(&self) -> usize {
        self.count - self.free
    }

    /// Blocks not in use.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Adds `count` blocks to `to`; takes none and returns false if there are not enough.
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

    /// Takes blocks that are only counted, of which there must be enough, for requests that learn of it later.
    pub fn take_uncredited(&mut self, count: usize) {
        debug_assert!(
            self.only_counts() && count <= self.free,
            "there are as many as all lack"
        );
        self.free -= count;
    }

    /// Gives blocks back, last one first: the end of a sequence is the least likely to be asked for again.
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

    /// Makes a full block findable by its content. The first block of a content stays the findable one.
    pub fn remember(&mut self, id: BlockId, hash: u64) {
        if self.blocks[id as usize].hash.is_none() && !self.cached.contains_key(&hash) {
            self.blocks[id as usize].hash = Some(hash);
            self.cached.insert(hash, id);
        }
    }

    /// The block of this content, with one more user.
    pub fn find(&mut self, hash: u64) -> Option<BlockId> {
        let id = *self.cached.get(&hash)?;
        if self.blocks[id as usize].users == 0 {
            self.unlink(id);
        }
        self.blocks[id as usize].users += 1;
        Some(id)
    }

    /// Forgets every content.
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
        pool.take_uncredited(1);
        assert_eq!((pool.used(), mine.count()), (3, 2));
        mine.recount(3);
        pool.release(&mut mine);
        assert_eq!((pool.free(), mine.count()), (3, 0));
    }
}
