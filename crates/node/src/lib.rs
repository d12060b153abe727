//! guira store: memcached's protocol over a store on flash
