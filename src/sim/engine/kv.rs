//! KV blocks: which are free, which are shared, which can be found again by content. A freed block keeps its content
//! until it is needed for something else; the one freed longest ago goes first. Knows nothing of requests or time.

use std::collections::HashMap;

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

/// All blocks of one engine. Free blocks form a list from longest free to just freed.
#[derive(Debug)]
pub struct Pool {
    blocks: Vec<Block>,
    cached: HashMap<u64, BlockId>,
    oldest: BlockId,
    newest: BlockId,
    free: usize,
}

impl Pool {
    /// A pool of `count` free blocks.
    pub fn new(count: usize) -> Self {
        let empty = Block {
            users: 0,
            hash: None,
            previous: NONE,
            next: NONE,
        };
        let blocks = vec![empty; count];
        let mut pool = Pool {
            blocks,
            cached: HashMap::new(),
            oldest: NONE,
            newest: NONE,
            free: 0,
        };
        for id in 0..count as BlockId {
            pool.push_newest(id);
        }
        pool
    }

    /// Blocks in use.
    pub fn used(&self) -> usize {
        self.blocks.len() - self.free
    }

    /// Blocks not in use.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Appends `count` blocks to `to`; takes none and returns false if there are not enough.
    pub fn take(&mut self, count: usize, to: &mut Vec<BlockId>) -> bool {
        if count > self.free {
            return false;
        }
        for _ in 0..count {
            let id = self.oldest;
            self.unlink(id);
            let block = &mut self.blocks[id as usize];
            block.users = 1;
            if let Some(hash) = block.hash.take() {
                self.cached.remove(&hash);
            }
            to.push(id);
        }
        true
    }

    /// Gives blocks back, last one first: the end of a sequence is the least likely to be asked for again.
    pub fn release(&mut self, blocks: &mut Vec<BlockId>) {
        while let Some(id) = blocks.pop() {
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
        let mut pool = Pool::new(2);
        let mut mine = Vec::new();
        assert!(pool.take(1, &mut mine));
        pool.remember(mine[0], 7);
        pool.release(&mut mine);
        assert_eq!(pool.used(), 0);
        let found = pool.find(7).expect("still cached");
        assert_eq!(pool.used(), 1);
        assert!(!pool.take(2, &mut mine), "one block is in use");
        pool.release(&mut vec![found]);
        assert!(pool.take(2, &mut mine));
        assert_eq!(pool.find(7), None);
    }

    #[test]
    fn a_shared_block_is_free_when_its_last_user_is_gone() {
        let mut pool = Pool::new(1);
        let mut first = Vec::new();
        assert!(pool.take(1, &mut first));
        pool.remember(first[0], 1);
        let mut second = vec![pool.find(1).expect("cached")];
        pool.release(&mut first);
        assert_eq!(pool.used(), 1);
        pool.release(&mut second);
        assert_eq!(pool.used(), 0);
    }
}
